//! The parser's errors as sentences: `syntax error at line 2, column 8: expected an expression, found FROM`.

use datafusion::sql::sqlparser::parser::ParserError;

/// What `error` says; `detail` is what DataFusion adds to it.
pub(crate) fn sentence(error: &ParserError, detail: Option<&str>) -> String {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message.as_str(),
        ParserError::RecursionLimitExceeded => {
            return format!("the statement is nested too deeply{}", detail.unwrap_or_default());
        }
    };
    let (what, place) = match message.rsplit_once(" at Line: ") {
        Some((what, place)) => (what, place.split_once(", Column: ")),
        None => (message, None),
    };
    let what = what
        .replace("Expected: ", "expected ")
        .replace(", found: EOF", ", found the end of the text")
        .replace(", found: ", ", found ");
    let what = uncapitalized(what.trim_end());
    match place {
        Some((line, column)) => format!("syntax error at line {line}, column {column}: {what}"),
        None => format!("syntax error: {what}"),
    }
}

/// With a small letter first, unless the first word is in capitals.
fn uncapitalized(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            format!("{}{}", first.to_lowercase(), &text[first.len_utf8()..])
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    use crate::error::Error;

    fn told(sql: &str) -> String {
        Error::from(crate::sql::parse(sql, &GenericDialect {}, 20).unwrap_err()).to_string()
    }

    #[test]
    fn a_syntax_error_is_a_sentence_with_its_place() {
        assert_eq!(
            told("SELECT 1;\nSELECT 2 3"),
            "syntax error at line 2, column 10: expected end of statement, found 3"
        );
        assert_eq!(told("SELEKT 1"), "syntax error at line 1, column 1: expected an SQL statement, found SELEKT");
        assert_eq!(told("SELECT 'abc"), "syntax error at line 1, column 8: unterminated string literal");
        assert_eq!(told("SELECT * FROM"), "syntax error: expected identifier, found the end of the text");
    }

    #[test]
    fn a_statement_that_is_nested_too_deeply_is_told_with_the_limit() {
        let message = told(&format!("SELECT {}1{}", "(".repeat(50), ")".repeat(50)));
        assert_eq!(message, "the statement is nested too deeply (current limit: 20)");
    }
}
