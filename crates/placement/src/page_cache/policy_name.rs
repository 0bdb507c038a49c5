//! The page policies by name: what users, programs and replays choose from.

use std::fmt;
use std::str::FromStr;

use super::PagePolicy;
use super::lfu::Lfu;
use super::lru::Lru;
use super::mru::Mru;
use super::os::Os;
use super::proportional::Proportional;
use super::two_queue::TwoQueue;

/// Which pages make room for others when memory is short.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PagePolicyName {
    /// Those of columns that have more than serves their queries (HPCache).
    #[default]
    Proportional,
    /// Those not used for longest.
    LeastRecentlyUsed,
    /// Those used last.
    MostRecentlyUsed,
    /// Those seen once, before those that came back (2Q).
    TwoQueue,
    /// Those used least often, older uses counting less.
    LeastFrequentlyUsed,
    /// All: caching is left to the operating system.
    Os,
}

impl PagePolicyName {
    /// Every policy, the default first.
    pub const ALL: [Self; 6] = [
        Self::Proportional,
        Self::LeastRecentlyUsed,
        Self::MostRecentlyUsed,
        Self::TwoQueue,
        Self::LeastFrequentlyUsed,
        Self::Os,
    ];

    /// A new policy of this name, without pages or quotas.
    pub fn build(self) -> Box<dyn PagePolicy> {
        match self {
            Self::Proportional => Box::new(Proportional::default()),
            Self::LeastRecentlyUsed => Box::new(Lru::default()),
            Self::MostRecentlyUsed => Box::new(Mru::default()),
            Self::TwoQueue => Box::new(TwoQueue::default()),
            Self::LeastFrequentlyUsed => Box::new(Lfu::default()),
            Self::Os => Box::new(Os::default()),
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Proportional => "proportional",
            Self::LeastRecentlyUsed => "lru",
            Self::MostRecentlyUsed => "mru",
            Self::TwoQueue => "2q",
            Self::LeastFrequentlyUsed => "lfu",
            Self::Os => "os",
        }
    }
}

impl fmt::Display for PagePolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// No page policy has the name. Its text lists those there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPagePolicy {
    /// The name as it was given.
    pub name: String,
}

impl fmt::Display for UnknownPagePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = PagePolicyName::ALL.into_iter().map(PagePolicyName::text).collect();
        write!(f, "there is no page policy '{}'; the policies are {}", self.name, known.join(", "))
    }
}

impl std::error::Error for UnknownPagePolicy {}

/// By the name that `Display` gives, in any case.
impl FromStr for PagePolicyName {
    type Err = UnknownPagePolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPagePolicy> {
        let wanted = text.trim();
        Self::ALL
            .into_iter()
            .find(|name| name.text().eq_ignore_ascii_case(wanted))
            .ok_or_else(|| UnknownPagePolicy { name: text.to_string() })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_by_its_own_name_alone() {
        for name in PagePolicyName::ALL {
            let text = name.to_string();
            assert_eq!(text.parse(), Ok(name));
            assert_eq!(text.to_uppercase().parse(), Ok(name));
            assert_eq!(PagePolicyName::ALL.iter().filter(|other| other.to_string() == text).count(), 1);
            assert_eq!(name.build().keeps_unpinned(), name != PagePolicyName::Os, "{name}");
        }
        assert_eq!(PagePolicyName::ALL[0], PagePolicyName::default());
        let message = "arc".parse::<PagePolicyName>().unwrap_err().to_string();
        assert!(message.contains("'arc'") && message.contains("proportional, lru"), "{message}");
    }
}
