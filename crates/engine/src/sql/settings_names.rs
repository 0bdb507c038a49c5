//! Names of settings that users of other engines know, mapped to ours.

use datafusion::sql::parser::{ResetStatement, Statement};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Set, Statement as SqlAst};

/// `(what the user may write, our setting)`.
const ALIASES: &[(&str, &str)] = &[
    ("allowed_directories", "thermocline.allowed_directories"),
    ("lock_configuration", "thermocline.lock_configuration"),
    ("memory_limit", "thermocline.memory"),
    ("max_memory", "thermocline.memory"),
    ("threads", "datafusion.execution.target_partitions"),
];

fn known(name: &str) -> Option<&'static str> {
    ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name)).map(|(_, ours)| *ours)
}

/// Replaces a known alias in `SET`, `RESET` and `SHOW` by the setting it stands for.
pub(crate) fn qualify(statement: &mut Statement) {
    let rename = |name: &mut ObjectName| {
        if let Some(ours) = known(&name.to_string()) {
            *name = ObjectName::from(ours.split('.').map(Ident::new).collect::<Vec<_>>());
        }
    };
    match statement {
        Statement::Statement(ast) => match ast.as_mut() {
            SqlAst::Set(Set::SingleAssignment { variable, .. }) => rename(variable),
            SqlAst::ShowVariable { variable } => {
                if let [single] = variable.as_slice()
                    && let Some(ours) = known(&single.value)
                {
                    *variable = ours.split('.').map(Ident::new).collect();
                }
            }
            _ => {}
        },
        Statement::Reset(ResetStatement::Variable(name)) => rename(name),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::known;

    #[test]
    fn names_known_from_other_engines_reach_our_settings() {
        assert_eq!(known("MEMORY_LIMIT"), Some("thermocline.memory"));
        assert_eq!(known("memory"), None);
    }
}
