//! The processor's name and the vector instruction sets that kernels may choose from at run time.

/// `model name` of x86, or the hardware line of other architectures; `None` where neither is printed.
pub(crate) fn parse_model(cpuinfo: &str) -> Option<String> {
    ["model name", "Model", "Hardware", "cpu model"].iter().find_map(|&wanted| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == wanted && !value.trim().is_empty()).then(|| value.trim().to_owned())
        })
    })
}

/// Names of the instruction sets this processor and the operating system support, widest last.
pub(crate) fn instruction_sets() -> Vec<&'static str> {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        // A macro with literal names: detection is compiled per feature.
        macro_rules! probe {
            ($($name:tt),*) => { $( if std::arch::is_x86_feature_detected!($name) { found.push($name); } )* };
        }
        probe!(
            "sse2",
            "ssse3",
            "sse4.2",
            "popcnt",
            "pclmulqdq",
            "bmi2",
            "avx",
            "avx2",
            "avx512f",
            "avx512bw",
            "avx512vbmi2"
        );
    }
    #[cfg(target_arch = "aarch64")]
    {
        macro_rules! probe {
            ($($name:tt),*) => { $( if std::arch::is_aarch64_feature_detected!($name) { found.push($name); } )* };
        }
        probe!("neon", "sve", "sve2");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_found_on_x86_and_arm() {
        let x86 = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R) CPU @ 2.20GHz\n";
        assert_eq!(parse_model(x86).as_deref(), Some("Intel(R) Xeon(R) CPU @ 2.20GHz"));
        assert_eq!(parse_model("processor : 0\nHardware\t: BCM2835\n").as_deref(), Some("BCM2835"));
        assert_eq!(parse_model("processor : 0\nmodel name :\n"), None);
        assert_eq!(parse_model(""), None);
    }
}
