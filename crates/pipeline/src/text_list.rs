//! Texts one behind the other, by their numbers: without an allocation for each.

/// Some texts in an order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextList {
    all: String,
    /// Where each ends.
    ends: Vec<usize>,
}

impl TextList {
    /// No texts.
    pub const fn new() -> Self {
        Self { all: String::new(), ends: Vec::new() }
    }

    /// With no room for more than these, which are gone through twice: what they take can be reserved beforehand
    /// ([`bytes_of`](Self::bytes_of)).
    pub(crate) fn exactly<'t>(texts: impl Iterator<Item = &'t str> + Clone) -> Self {
        let (count, text_bytes) = texts.clone().fold((0, 0), |(count, bytes), text| (count + 1, bytes + text.len()));
        let mut list = Self { all: String::with_capacity(text_bytes), ends: Vec::with_capacity(count) };
        texts.for_each(|text| list.push(text));
        list
    }

    /// Bytes that so many texts take which have so many bytes in all.
    pub(crate) const fn bytes_of(count: usize, text_bytes: usize) -> usize {
        text_bytes + count * size_of::<usize>()
    }

    /// Adds one behind the last.
    pub fn push(&mut self, text: &str) {
        self.all.push_str(text);
        self.ends.push(self.all.len());
    }

    /// Adds others behind the last.
    pub fn append(&mut self, others: &Self) {
        let before = self.all.len();
        self.all.push_str(&others.all);
        self.ends.extend(others.ends.iter().map(|end| before + end));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The text with this number.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&str> {
        let start = if number == 0 { 0 } else { *self.ends.get(number - 1)? };
        self.all.get(start..*self.ends.get(number)?)
    }

    /// Bytes of the text with this number, none if there is no such text.
    #[inline]
    pub fn len_of(&self, number: usize) -> usize {
        let start = if number == 0 { 0 } else { self.ends.get(number - 1).copied().unwrap_or(0) };
        self.ends.get(number).map_or(0, |end| end - start)
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        (0..self.len()).map(|number| self.get(number).unwrap_or_default())
    }

    /// The number of a text in a list that is sorted by the bytes of its texts; else of the first one behind it.
    pub(crate) fn search(&self, text: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).unwrap_or_default().as_bytes().cmp(text) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// Bytes that they take, not counting room for more.
    pub fn size_bytes(&self) -> usize {
        Self::bytes_of(self.ends.len(), self.all.len())
    }

    /// Bytes that they take, room for more included.
    pub(crate) fn allocated_bytes(&self) -> usize {
        Self::bytes_of(self.ends.capacity(), self.all.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_by_their_numbers_and_are_found() {
        let texts = ["", "a", "b", "ö", "öö"];
        let list = TextList::exactly(texts.into_iter());
        assert_eq!(list.allocated_bytes(), list.size_bytes());
        assert!((0..7).map(|number| list.len_of(number)).eq([0, 1, 1, 2, 4, 0, 0]));
        assert!(list.iter().eq(texts) && list.get(5).is_none() && TextList::new().get(0).is_none());
        let mut twice = list.clone();
        twice.append(&list);
        assert!(twice.iter().eq(texts.into_iter().chain(texts)));
        for (number, text) in texts.iter().enumerate() {
            assert_eq!(list.search(text.as_bytes()), Ok(number));
        }
        assert_eq!([&b"A"[..], b"ab", b"\xff"].map(|text| list.search(text)), [Err(1), Err(2), Err(5)]);
    }
}
