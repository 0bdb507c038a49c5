//! Words of SQL that the shell completes and highlights: those people type, not all that the grammar knows.

/// Upper case, sorted.
pub(super) const KEYWORDS: &[&str] = &[
    "ALL",
    "AND",
    "ANY",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CACHE",
    "CASE",
    "CAST",
    "COPY",
    "CREATE",
    "CROSS",
    "CSV",
    "DATE",
    "DELIMITER",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXTERNAL",
    "FALSE",
    "FILTER",
    "FIRST",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IF",
    "ILIKE",
    "IN",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "LAST",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "LOCATION",
    "NDJSON",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OPTIONS",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARQUET",
    "PARTITION",
    "RESET",
    "RIGHT",
    "ROLLUP",
    "SELECT",
    "SET",
    "SHOW",
    "STORED",
    "TABLE",
    "TABLES",
    "THEN",
    "TIMESTAMP",
    "TO",
    "TRUE",
    "UNION",
    "UNNEST",
    "USING",
    "VALUES",
    "VIEW",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
];

/// Whether `word` is one of them, in any case.
pub(super) fn is_keyword(word: &str) -> bool {
    // The longest has nine letters; longer words need no copy.
    word.len() <= 9 && KEYWORDS.binary_search(&word.to_ascii_uppercase().as_str()).is_ok()
}

/// Those that begin with `prefix`, in lower case if it is.
pub(super) fn starting_with(prefix: &str) -> impl Iterator<Item = String> + '_ {
    let is_lower = prefix.chars().any(|c| c.is_ascii_lowercase());
    let upper = prefix.to_ascii_uppercase();
    KEYWORDS
        .iter()
        .filter(move |word| word.starts_with(&upper))
        .map(move |word| if is_lower { word.to_ascii_lowercase() } else { (*word).to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_short() {
        assert!(KEYWORDS.is_sorted());
        assert!(KEYWORDS.iter().all(|word| word.len() <= 9), "is_keyword relies on it");
    }

    #[test]
    fn completions_follow_the_case_of_what_was_typed() {
        assert_eq!(starting_with("sel").collect::<Vec<_>>(), ["select"]);
        assert_eq!(starting_with("DESC").collect::<Vec<_>>(), ["DESC", "DESCRIBE"]);
        assert!(is_keyword("From") && !is_keyword("frm"));
    }
}
