//! The name of a field, through structs and lists, from the record root.

use std::fmt;
use std::sync::Arc;

/// Path of field names from the record root, for example `lineitems.l_quantity`.
///
/// Names are kept as they stand in the file: case matters, and a name may contain a dot or a quote. Lists add
/// no part of their own: the path continues with the fields of their elements. Cloning bumps one reference count.
///
/// ```
/// use thermocline_predicate::FieldPath;
/// let quantity = FieldPath::root("lineitems").child("l_quantity");
/// assert_eq!(quantity.to_string(), "lineitems.l_quantity");
/// assert!(quantity.starts_with(&FieldPath::root("lineitems")));
/// assert_eq!(FieldPath::root("a.b").to_string(), "\"a.b\"");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath(Arc<[Arc<str>]>);

impl FieldPath {
    /// A path of these names, outermost first.
    pub fn new<I>(parts: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<Arc<str>>,
    {
        Self(parts.into_iter().map(Into::into).collect())
    }

    /// The path of a top-level field.
    pub fn root(name: &str) -> Self {
        Self(Arc::from([Arc::from(name)]))
    }

    /// The names, outermost first.
    pub fn parts(&self) -> &[Arc<str>] {
        &self.0
    }

    /// The path of field `name` inside this one.
    pub fn child(&self, name: &str) -> Self {
        Self(self.0.iter().cloned().chain([Arc::from(name)]).collect())
    }

    /// Whether `prefix` is this path or one of its ancestors. Compares whole names: `ab` does not start with `a`.
    pub fn starts_with(&self, prefix: &FieldPath) -> bool {
        self.0.starts_with(&prefix.0)
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether this is the path of the record itself.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes on the heap, reference counts included.
    pub fn heap_bytes(&self) -> usize {
        const COUNTS_BYTES: usize = 2 * size_of::<usize>();
        let names: usize = self.0.iter().map(|name| COUNTS_BYTES + name.len()).sum();
        COUNTS_BYTES + size_of_val::<[Arc<str>]>(&self.0) + names
    }
}

/// As SQL would name it: parts joined by dots, in double quotes where an unquoted identifier would be read
/// otherwise (folded to lower case, or split at a dot).
impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(".")?;
            }
            if is_plain(part) {
                f.write_str(part)?;
            } else {
                write!(f, "\"{}\"", part.replace('"', "\"\""))?;
            }
        }
        Ok(())
    }
}

fn is_plain(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_')
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_sql_would_fold_or_split_are_quoted() {
        let path = FieldPath::new(["plain_1", "Upper", "with.dot", "with\"quote", "", "1st"]);
        assert_eq!(path.to_string(), "plain_1.\"Upper\".\"with.dot\".\"with\"\"quote\".\"\".\"1st\"");
    }

    #[test]
    fn a_prefix_is_made_of_whole_names() {
        let path = FieldPath::new(["ab", "c"]);
        assert!(path.starts_with(&FieldPath::root("ab")));
        assert!(path.starts_with(&path));
        assert!(!path.starts_with(&FieldPath::root("a")));
        assert!(!FieldPath::root("ab").starts_with(&path));
    }

    #[test]
    fn paths_are_ordered_name_by_name() {
        assert!(FieldPath::new(["a", "z"]) < FieldPath::new(["ab"]));
        assert_eq!(FieldPath::root("a").child("b"), FieldPath::new(["a", "b"]));
        assert_eq!(FieldPath::new(["a", "b"]).len(), 2);
    }
}
