//! How much room text takes on a terminal, and making it take less.

use unicode_width::UnicodeWidthStr;

/// Columns a text takes on a terminal.
pub(super) fn width_of(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

pub(super) fn pad(text: &str, width: usize, right: bool) -> String {
    let blanks = width.saturating_sub(width_of(text));
    let mut padded = String::with_capacity(text.len() + blanks);
    if right {
        padded.extend(std::iter::repeat_n(' ', blanks));
    }
    padded.push_str(text);
    if !right {
        padded.extend(std::iter::repeat_n(' ', blanks));
    }
    padded
}

/// Cuts each line of `text` to `width` columns, with `…` for what is gone.
pub(super) fn shorten(text: &str, width: usize) -> String {
    if text.split('\n').all(|line| width_of(line) <= width) {
        return text.to_owned();
    }
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| {
            if width_of(line) <= width {
                return line.to_owned();
            }
            let mut kept = String::new();
            for c in line.chars() {
                kept.push(c);
                if width_of(&kept) + 1 > width {
                    kept.pop();
                    break;
                }
            }
            kept.push('…');
            kept
        })
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_text_is_cut_by_the_columns_it_takes() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdef", 4), "abc…");
        // Each of these takes two columns, so only one fits beside the mark.
        assert_eq!(shorten("日本語", 4), "日…");
        assert_eq!(width_of(&shorten("日本語の列", 6)), 5);
        assert_eq!(shorten("ab\nabcdef", 4), "ab\nabc…");
    }
}
