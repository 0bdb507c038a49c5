//! Texts that are made of a column's texts, such as their first letters: whoever makes a pipeline brings the function.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;

use crate::PipelineError;

/// What is made of each of some texts.
type Apply = dyn Fn(&ArrayRef) -> Result<ArrayRef, Box<dyn Error + Send + Sync>> + Send + Sync;

/// A function of one text that depends on nothing else, and gives a text for every one.
///
/// It is applied to different texts of a page, not to rows: also to texts that no row has which is left. Of NULL it is
/// NULL, whatever the function says.
#[derive(Clone)]
pub struct TextMap {
    shown: Arc<str>,
    may_fail: bool,
    apply: Arc<Apply>,
}

impl TextMap {
    /// A function whose results people know as `shown`. `apply` is given an array of any of Arrow's three types of texts,
    /// and makes one of any of them.
    pub fn new(
        shown: impl Into<Arc<str>>,
        apply: impl Fn(&ArrayRef) -> Result<ArrayRef, Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        Self { shown: shown.into(), may_fail: true, apply: Arc::new(apply) }
    }

    /// The same, known to make a text of every one.
    #[must_use]
    pub fn never_failing(self) -> Self {
        Self { may_fail: false, ..self }
    }

    /// Whether it may meet a text that ends the run.
    pub(crate) fn may_fail(&self) -> bool {
        self.may_fail
    }

    /// As people know what it makes.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// What it makes of each of these texts; of a NULL among them anything.
    ///
    /// # Errors
    /// [`PipelineError::TextMap`] with what the function meets, or where it makes no text of one.
    pub(crate) fn apply(&self, texts: &ArrayRef) -> Result<ArrayRef, PipelineError> {
        let failed = |source| PipelineError::TextMap { text: self.shown.to_string(), source };
        let made = (self.apply)(texts).map_err(failed)?;
        if made.len() != texts.len() {
            return Err(failed(format!("{} texts of {}", made.len(), texts.len()).into()));
        }
        if !matches!(made.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
            return Err(failed(format!("{} instead of texts", made.data_type()).into()));
        }
        if made.null_count() > 0 && (0..made.len()).any(|at| made.is_null(at) && texts.is_valid(at)) {
            return Err(failed("it makes no text of one".into()));
        }
        Ok(made)
    }
}

/// Two are the same if they have the same function, not one that only does the same.
impl PartialEq for TextMap {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.apply, &other.apply)
    }
}

impl Eq for TextMap {}

impl fmt::Debug for TextMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextMap").field("shown", &self.shown).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use arrow::array::{AsArray, Int8Array, StringArray, StringViewArray};

    use super::*;

    #[test]
    fn a_function_that_makes_no_text_of_one_is_an_error() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        let making = |made: ArrayRef| TextMap::new("f(t)", move |_: &ArrayRef| Ok(Arc::clone(&made)));
        let made = making(Arc::new(StringViewArray::from(vec![Some("b"), None]))).apply(&texts).unwrap();
        assert_eq!(made.as_string_view().value(0), "b");
        let wrong: [ArrayRef; 3] = [
            Arc::new(StringArray::from(vec![None, Some("b")])),
            Arc::new(StringArray::from(vec!["b"])),
            Arc::new(Int8Array::from(vec![1, 2])),
        ];
        for made in wrong {
            let error = making(made).apply(&texts).unwrap_err();
            assert!(matches!(error, PipelineError::TextMap { ref text, .. } if text == "f(t)"), "{error}");
        }
        let failing = TextMap::new("f(t)", |_: &ArrayRef| Err("no".into()));
        assert_eq!(failing.apply(&texts).unwrap_err().to_string(), "f(t): no");
    }
}
