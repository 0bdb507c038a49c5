//! The text of a trace: flat JSON objects, one a line, written and read without a general JSON library, since that is
//! all there is to it and the crate depends on nothing.

use std::fmt::{self, Write};
use std::iter::Peekable;
use std::str::{Chars, FromStr};
use std::sync::Arc;

use super::{Answered, Request};
use crate::operator_cache::SourceKind;

/// Says which format a file holds; the value of the header's field `format`.
const FORMAT: &str = "thermocline-cache-trace";

/// Goes up when a reader of the version before would misunderstand a line. New fields don't need that.
const VERSION: u64 = 1;

/// The first line of a trace, without its line break.
pub fn header() -> String {
    format!(r#"{{"format":"{FORMAT}","version":{VERSION}}}"#)
}

/// A trace that can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceError {
    /// Line of the text, from 1.
    pub line: usize,
    /// What was expected there and what was found.
    pub what: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cache trace, line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for TraceError {}

/// Reads a whole trace. Traces may be concatenated: each begins with its header. Empty lines are passed over.
///
/// # Errors
/// Names the line, the field and what is wrong with it.
pub fn parse(text: &str) -> Result<Vec<Request>, TraceError> {
    let mut requests = Vec::new();
    let mut is_headed = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let fail = |what| TraceError { line: number, what };
        let fields = Fields::parse(line).map_err(fail)?;
        if fields.get("format").is_some() {
            fields.check_header().map_err(fail)?;
            is_headed = true;
        } else if is_headed {
            requests.push(fields.request().map_err(fail)?);
        } else {
            return Err(fail(format!("expected the header {}, found a line without `format`", header())));
        }
    }
    if is_headed {
        Ok(requests)
    } else {
        Err(TraceError { line: 1, what: format!("expected the header {}", header()) })
    }
}

impl Answered {
    const ALL: [Self; 5] = [Self::Hit, Self::Subsumed, Self::Joined, Self::Extended, Self::Missed];

    /// Lower-case word, as in a trace.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Subsumed => "subsume",
            Self::Joined => "join",
            Self::Extended => "extend",
            Self::Missed => "miss",
        }
    }
}

impl FromStr for Answered {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|answered| answered.as_str() == text)
            .ok_or_else(|| format!("expected `hit`, `subsume`, `join`, `extend` or `miss`, found `{text}`"))
    }
}

impl FromStr for SourceKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "csv" => Ok(Self::Csv),
            "json" => Ok(Self::Json),
            _ => Err(format!("expected `csv` or `json`, found `{text}`")),
        }
    }
}

/// One line of a trace, without its line break.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            SourceKind::Csv => "csv",
            SourceKind::Json => "json",
        };
        write!(f, r#"{{"wall_ns":{},"answered":"{}","source":""#, self.wall_ns, self.answered.as_str())?;
        for character in self.source.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                control if control < ' ' => write!(f, "\\u{:04x}", u32::from(control))?,
                plain => f.write_char(plain)?,
            }
        }
        write!(f, r#"","kind":"{kind}","item":"{:016x}","asked":"{:016x}""#, self.item, self.asked)?;
        write!(f, r#","size_bytes":{},"execute_ns":{}"#, self.size_bytes, self.execute_ns)?;
        write!(f, r#","cache_ns":{},"reuse_scan_ns":{}"#, self.cache_ns, self.reuse_scan_ns)?;
        write!(f, r#","lookup_ns":{}}}"#, self.lookup_ns)
    }
}

/// A line's fields in their order; values as text, unescaped. A field that is there twice counts as the first.
struct Fields(Vec<(String, String)>);

impl Fields {
    fn parse(line: &str) -> Result<Self, String> {
        let mut characters = line.trim().chars().peekable();
        let mut fields = Vec::new();
        expect(&mut characters, '{')?;
        loop {
            skip_blanks(&mut characters);
            if fields.is_empty() && characters.next_if_eq(&'}').is_some() {
                break;
            }
            let name = string(&mut characters)?;
            skip_blanks(&mut characters);
            expect(&mut characters, ':')?;
            skip_blanks(&mut characters);
            let value = match characters.peek() {
                Some('"') => string(&mut characters)?,
                Some('0'..='9') => {
                    let mut digits = String::new();
                    while let Some(digit) = characters.next_if(char::is_ascii_digit) {
                        digits.push(digit);
                    }
                    digits
                }
                found => {
                    let found = described(found.copied());
                    return Err(format!("`{name}`: expected a string or a whole number, found {found}"));
                }
            };
            fields.push((name, value));
            skip_blanks(&mut characters);
            match characters.next() {
                Some(',') => {}
                Some('}') => break,
                found => return Err(format!("expected `,` or `}}`, found {}", described(found))),
            }
        }
        match characters.next() {
            None => Ok(Self(fields)),
            found => Err(format!("expected the line's end after `}}`, found {}", described(found))),
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    fn text(&self, name: &str) -> Result<&str, String> {
        self.get(name).ok_or_else(|| format!("the field `{name}` is missing"))
    }

    fn number(&self, name: &str) -> Result<u64, String> {
        let text = self.text(name)?;
        text.parse().map_err(|_| format!("`{name}`: expected a whole number below 2^64, found `{text}`"))
    }

    fn word<T: FromStr<Err = String>>(&self, name: &str) -> Result<T, String> {
        self.text(name)?.parse().map_err(|error| format!("`{name}`: {error}"))
    }

    fn fingerprint(&self, name: &str) -> Result<u64, String> {
        let text = self.text(name)?;
        u64::from_str_radix(text, 16).map_err(|_| format!("`{name}`: expected 16 hexadecimal digits, found `{text}`"))
    }

    fn check_header(&self) -> Result<(), String> {
        let (format, version) = (self.text("format")?, self.number("version")?);
        if format != FORMAT {
            return Err(format!("`format`: expected `{FORMAT}`, found `{format}`"));
        }
        if version != VERSION {
            return Err(format!("`version`: expected {VERSION}, found {version}"));
        }
        Ok(())
    }

    fn request(&self) -> Result<Request, String> {
        Ok(Request {
            wall_ns: self.number("wall_ns")?,
            answered: self.word("answered")?,
            source: Arc::from(self.text("source")?),
            kind: self.word("kind")?,
            item: self.fingerprint("item")?,
            asked: self.fingerprint("asked")?,
            size_bytes: self.number("size_bytes")?,
            execute_ns: self.number("execute_ns")?,
            cache_ns: self.number("cache_ns")?,
            reuse_scan_ns: self.number("reuse_scan_ns")?,
            lookup_ns: self.number("lookup_ns")?,
        })
    }
}

fn described(character: Option<char>) -> String {
    character.map_or("the line's end".to_string(), |character| format!("`{character}`"))
}

fn skip_blanks(characters: &mut Peekable<Chars<'_>>) {
    while characters.next_if(|character| matches!(character, ' ' | '\t')).is_some() {}
}

fn expect(characters: &mut Peekable<Chars<'_>>, wanted: char) -> Result<(), String> {
    match characters.next() {
        Some(found) if found == wanted => Ok(()),
        found => Err(format!("expected `{wanted}`, found {}", described(found))),
    }
}

/// A JSON string, its quotes included.
fn string(characters: &mut Peekable<Chars<'_>>) -> Result<String, String> {
    expect(characters, '"')?;
    let mut text = String::new();
    loop {
        match characters.next() {
            Some('"') => return Ok(text),
            Some('\\') => text.push(escaped(characters)?),
            Some(plain) => text.push(plain),
            None => return Err("expected `\"` at a string's end, found the line's end".to_string()),
        }
    }
}

/// What stands behind a backslash.
fn escaped(characters: &mut Peekable<Chars<'_>>) -> Result<char, String> {
    match characters.next() {
        Some(same @ ('"' | '\\' | '/')) => Ok(same),
        Some('b') => Ok('\u{8}'),
        Some('f') => Ok('\u{c}'),
        Some('n') => Ok('\n'),
        Some('r') => Ok('\r'),
        Some('t') => Ok('\t'),
        Some('u') => {
            let first = code_unit(characters)?;
            let units = if (0xd800..0xdc00).contains(&first) {
                expect(characters, '\\')?;
                expect(characters, 'u')?;
                vec![first, code_unit(characters)?]
            } else {
                vec![first]
            };
            char::decode_utf16(units).next().and_then(Result::ok).ok_or_else(|| "half of a surrogate pair".to_string())
        }
        found => Err(format!("expected an escape behind `\\`, found {}", described(found))),
    }
}

fn code_unit(characters: &mut Peekable<Chars<'_>>) -> Result<u16, String> {
    let digits: String = characters.take(4).collect();
    u16::from_str_radix(&digits, 16)
        .map_err(|_| format!("expected four hexadecimal digits behind `\\u`, found `{digits}`"))
}
