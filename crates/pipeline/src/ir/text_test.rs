//! Tests of texts that sets of them cannot express, such as patterns: whoever makes a pipeline brings the function.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};

use crate::PipelineError;

/// What a test finds out of each of some texts.
type Evaluate = dyn Fn(&ArrayRef) -> Result<BooleanArray, Box<dyn Error + Send + Sync>> + Send + Sync;

/// A condition on one text that depends on nothing else, and is true or false of every text.
///
/// It is evaluated for different texts, not for rows: also for texts that no row has which passes the other conditions.
#[derive(Clone)]
pub struct TextTest {
    shown: Arc<str>,
    of_null: Option<bool>,
    may_fail: bool,
    evaluate: Arc<Evaluate>,
}

impl TextTest {
    /// A test that people know as `shown`, and that is `of_null` where there is no text. `evaluate` is given an array of
    /// any of Arrow's three types of texts.
    pub fn new(
        shown: impl Into<Arc<str>>,
        of_null: Option<bool>,
        evaluate: impl Fn(&ArrayRef) -> Result<BooleanArray, Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        Self { shown: shown.into(), of_null, may_fail: true, evaluate: Arc::new(evaluate) }
    }

    /// The same, known to be true or false of every text.
    #[must_use]
    pub fn never_failing(self) -> Self {
        Self { may_fail: false, ..self }
    }

    /// Whether it may meet a text that ends the run.
    pub(crate) fn may_fail(&self) -> bool {
        self.may_fail
    }

    /// What it says of a NULL; `None` if that is unknown.
    pub fn of_null(&self) -> Option<bool> {
        self.of_null
    }

    /// Of which texts it is true; of a NULL among them nothing is known.
    ///
    /// # Errors
    /// [`PipelineError::TextTest`] with what the function meets, or where it leaves open what is true of a text.
    pub(crate) fn evaluate(&self, texts: &ArrayRef) -> Result<BooleanArray, PipelineError> {
        let failed = |source| PipelineError::TextTest { test: self.shown.to_string(), source };
        let passed = (self.evaluate)(texts).map_err(failed)?;
        if passed.len() != texts.len() {
            return Err(failed(format!("{} answers for {} texts", passed.len(), texts.len()).into()));
        }
        let is_open = |at: usize| passed.is_null(at) && texts.is_valid(at);
        if passed.null_count() > 0 && (0..passed.len()).any(is_open) {
            return Err(failed("it is neither true nor false of a text".into()));
        }
        Ok(passed)
    }
}

/// Two are the same if they have the same function, not one that only does the same.
impl PartialEq for TextTest {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.evaluate, &other.evaluate)
    }
}

impl Eq for TextTest {}

impl fmt::Debug for TextTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextTest").field("shown", &self.shown).field("of_null", &self.of_null).finish_non_exhaustive()
    }
}

impl fmt::Display for TextTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use arrow::array::StringArray;

    use super::*;

    #[test]
    fn a_test_that_leaves_texts_open_is_an_error() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        let saying = |answers: Vec<Option<bool>>| {
            TextTest::new("t", None, move |_: &ArrayRef| Ok(BooleanArray::from(answers.clone())))
        };
        assert_eq!(saying(vec![Some(true), None]).evaluate(&texts).unwrap().true_count(), 1);
        for answers in [vec![None, None], vec![Some(true)], Vec::new()] {
            let error = saying(answers).evaluate(&texts).unwrap_err();
            assert!(matches!(error, PipelineError::TextTest { ref test, .. } if test == "t"), "{error}");
        }
        let failing = TextTest::new("t", None, |_: &ArrayRef| Err("no".into()));
        assert_eq!(failing.evaluate(&texts).unwrap_err().to_string(), "t: no");
    }
}
