//! Nested JSON into a byte buffer: objects, lists, and values that take no space between them.
//!
//! Owns the frames of objects and lists. How numbers and strings are spelled is `thermocline-tpch`'s.

use thermocline_tpch::{push_hundredths, push_integer, push_json_string};

/// An open object.
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

/// Appends an object whose fields `fill` writes.
pub(super) fn object(out: &mut Vec<u8>, fill: impl FnOnce(&mut Object<'_>)) {
    out.push(b'{');
    fill(&mut Object { out, first: true });
    out.push(b'}');
}

/// Appends a list of `count` elements; `fill` writes the one of the number that it gets.
pub(super) fn list(out: &mut Vec<u8>, count: u64, mut fill: impl FnMut(&mut Vec<u8>, u64)) {
    out.push(b'[');
    for index in 0..count {
        if index > 0 {
            out.push(b',');
        }
        fill(out, index);
    }
    out.push(b']');
}

impl Object<'_> {
    /// Writes a field's name and hands out the buffer for its value. Names need no escapes.
    pub(super) fn name(&mut self, name: &str) -> &mut Vec<u8> {
        self.out.extend_from_slice(if self.first { b"\"" } else { b",\"" });
        self.first = false;
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    pub(super) fn integer(&mut self, name: &str, value: i64) {
        push_integer(self.name(name), value);
    }

    /// A number with two decimals.
    pub(super) fn hundredths(&mut self, name: &str, value: i64) {
        push_hundredths(self.name(name), value);
    }

    /// A number with four decimals.
    pub(super) fn ten_thousandths(&mut self, name: &str, value: i64) {
        push_ten_thousandths(self.name(name), value);
    }

    pub(super) fn boolean(&mut self, name: &str, value: bool) {
        self.name(name).extend_from_slice(if value { b"true" } else { b"false" });
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        push_json_string(self.name(name), value);
    }

    pub(super) fn object(&mut self, name: &str, fill: impl FnOnce(&mut Object<'_>)) {
        object(self.name(name), fill);
    }

    pub(super) fn list(&mut self, name: &str, count: u64, fill: impl FnMut(&mut Vec<u8>, u64)) {
        list(self.name(name), count, fill);
    }
}

/// Appends a number with four decimals: 5 is `0.0005`.
pub(super) fn push_ten_thousandths(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    let size = value.unsigned_abs();
    push_integer(out, (size / 10_000) as i64);
    out.push(b'.');
    let rest = size % 10_000;
    out.extend([1000, 100, 10, 1].map(|place| b'0' + (rest / place % 10) as u8));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_lists_nest() {
        let mut out = Vec::new();
        object(&mut out, |o| {
            o.integer("a", -1);
            o.object("b", |_| {});
            o.list("c", 2, |out, index| object(out, |o| o.integer("d", index as i64)));
            o.list("e", 0, |_, _| {});
            o.boolean("f", true);
            o.text("g", "say \"h\"");
            o.hundredths("i", 105);
            o.ten_thousandths("j", -10_005);
        });
        let expected = r#"{"a":-1,"b":{},"c":[{"d":0},{"d":1}],"e":[],"f":true,"g":"say \"h\"","i":1.05,"j":-1.0005}"#;
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
