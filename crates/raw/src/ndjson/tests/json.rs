//! The slow, obvious parser: recursive descent over characters into a tree.

/// A JSON value with its text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) text: String,
    pub(crate) value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Boolean(bool),
    Number,
    String(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    /// The first field of this name.
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        match &self.value {
            Value::Object(fields) => fields.iter().find(|(known, _)| known == name).map(|(_, node)| node),
            _ => None,
        }
    }
}

/// Parses one value that is the whole text.
pub(crate) fn parse(text: &str) -> Option<Node> {
    let characters: Vec<char> = text.chars().collect();
    let mut parser = Parser { characters: &characters, at: 0 };
    let node = parser.value()?;
    parser.space();
    (parser.at == characters.len()).then_some(node)
}

struct Parser<'a> {
    characters: &'a [char],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> char {
        self.characters.get(self.at).copied().unwrap_or('\0')
    }

    fn next(&mut self) -> char {
        let character = self.peek();
        self.at += 1;
        character
    }

    fn eat(&mut self, expected: char) -> Option<()> {
        (self.next() == expected).then_some(())
    }

    fn space(&mut self) {
        while matches!(self.peek(), ' ' | '\t' | '\r' | '\n') {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Option<Node> {
        self.space();
        let start = self.at;
        let value = match self.peek() {
            '{' => {
                self.at += 1;
                let mut fields = Vec::new();
                self.space();
                if self.peek() == '}' {
                    self.at += 1;
                } else {
                    loop {
                        self.space();
                        let name = self.string()?;
                        self.space();
                        self.eat(':')?;
                        fields.push((name, self.value()?));
                        self.space();
                        match self.next() {
                            ',' => {}
                            '}' => break,
                            _ => return None,
                        }
                    }
                }
                Value::Object(fields)
            }
            '[' => {
                self.at += 1;
                let mut elements = Vec::new();
                self.space();
                if self.peek() == ']' {
                    self.at += 1;
                } else {
                    loop {
                        elements.push(self.value()?);
                        self.space();
                        match self.next() {
                            ',' => {}
                            ']' => break,
                            _ => return None,
                        }
                    }
                }
                Value::List(elements)
            }
            '"' => Value::String(self.string()?),
            't' => self.word("true", Value::Boolean(true))?,
            'f' => self.word("false", Value::Boolean(false))?,
            'n' => self.word("null", Value::Null)?,
            _ => self.number()?,
        };
        Some(Node { text: self.characters[start..self.at].iter().collect(), value })
    }

    fn word(&mut self, word: &str, value: Value) -> Option<Value> {
        word.chars().try_for_each(|character| self.eat(character))?;
        Some(value)
    }

    fn digits(&mut self) -> Option<usize> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        (self.at > start).then_some(self.at - start)
    }

    fn number(&mut self) -> Option<Value> {
        if self.peek() == '-' {
            self.at += 1;
        }
        let has_leading_zero = self.peek() == '0';
        if self.digits()? > 1 && has_leading_zero {
            return None;
        }
        if self.peek() == '.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), 'e' | 'E') {
            self.at += 1;
            if matches!(self.peek(), '+' | '-') {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(Value::Number)
    }

    fn string(&mut self) -> Option<String> {
        self.eat('"')?;
        let mut units: Vec<u16> = Vec::new();
        loop {
            match self.next() {
                '"' => return String::from_utf16(&units).ok(),
                '\\' => {
                    let character = match self.next() {
                        'b' => '\u{8}',
                        'f' => '\u{c}',
                        'n' => '\n',
                        'r' => '\r',
                        't' => '\t',
                        'u' => {
                            let mut unit = 0;
                            for _ in 0..4 {
                                unit = unit * 16 + self.next().to_digit(16)? as u16;
                            }
                            units.push(unit);
                            continue;
                        }
                        character @ ('"' | '\\' | '/') => character,
                        _ => return None,
                    };
                    units.push(character as u16);
                }
                character if character < ' ' => return None,
                character => units.extend(character.encode_utf16(&mut [0; 2]).iter()),
            }
        }
    }
}
