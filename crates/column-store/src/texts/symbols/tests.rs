use thermocline_seeded::Random;

use super::*;

fn round_trip(table: &SymbolTable, texts: &[Vec<u8>]) -> usize {
    let mut starts = [const { Vec::new() }; INTEGER_SECTIONS];
    let text_bytes = texts.iter().map(Vec::len).sum();
    let sections = table.write(text_bytes, texts.iter().map(Vec::as_slice), &mut starts);
    let section = |bytes| Section { offset: 0, bytes };
    let opened =
        Texts::open(starts.each_ref().map(|bytes| section(bytes)), section(&sections[0]), texts.len()).unwrap();
    let opened = SymbolTexts::open(opened, section(&sections[1])).unwrap();
    let mut decoded = Vec::new();
    for index in 0..texts.len().div_ceil(crate::MINI_BLOCK_VALUES) {
        opened
            .encoded()
            .for_each(index, |encoded| {
                let mut text = Vec::new();
                opened.decode_text(encoded, &mut text)?;
                decoded.push(text);
                Ok(())
            })
            .unwrap();
    }
    assert_eq!(decoded, texts);
    for (index, texts) in texts.chunks(crate::MINI_BLOCK_VALUES).enumerate() {
        let places: Vec<u16> = (0..texts.len() as u16).step_by(7).collect();
        let mut some = Vec::new();
        let push = |encoded: &[u8]| {
            let mut text = Vec::new();
            opened.decode_text(encoded, &mut text)?;
            some.push(text);
            Ok(())
        };
        opened.encoded().for_each_of(index, &places, push).unwrap();
        assert_eq!(some, texts.iter().step_by(7).cloned().collect::<Vec<_>>());
        let behind = [texts.len() as u16];
        assert!(opened.encoded().for_each_of(index, &behind, |_| Ok(())).is_err());
    }
    sections[0].len()
}

fn built(texts: &[Vec<u8>]) -> (SymbolTable, f64) {
    build(texts.iter().map(Vec::len).sum(), texts.iter().map(Vec::as_slice)).unwrap()
}

#[test]
fn addresses_shrink_to_less_than_half_as_the_sample_says() {
    let mut random = Random::new(4);
    let texts: Vec<Vec<u8>> = (0..5000)
        .map(|_| format!("https://www.example.org/shop/{}?user={}", random.below(40), random.below(9000)).into_bytes())
        .collect();
    let size_bytes: usize = texts.iter().map(Vec::len).sum();
    let (table, share) = built(&texts);
    let encoded_bytes = round_trip(&table, &texts);
    assert!(encoded_bytes * 5 < size_bytes * 2, "{encoded_bytes} of {size_bytes} bytes");
    let foretold = share * size_bytes as f64;
    assert!((foretold / encoded_bytes as f64 - 1.0).abs() < 0.05, "{foretold} foretold, {encoded_bytes} written");
}

#[test]
fn any_bytes_come_back_by_any_table() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let texts = |random: &mut Random| -> Vec<Vec<u8>> {
            let alphabet = *random.pick(&[1, 2, 4, 30, 256]);
            let length = *random.pick(&[1, 3, 20, 300]);
            (0..=random.below(1500))
                .map(|_| (0..random.below(length)).map(|_| random.below(alphabet) as u8).collect())
                .chain([vec![0; 9], vec![ESCAPE; 3], vec![1]])
                .collect()
        };
        let (like, unlike) = (texts(&mut random), texts(&mut random));
        let (table, _) = built(&like);
        round_trip(&table, &like);
        round_trip(&table, &unlike);
        round_trip(&SymbolTable::new(Vec::new()), &unlike);
    }
}

#[test]
fn the_longest_symbol_within_the_text_is_taken() {
    let symbol = |text: &[u8]| text.iter().map(|byte| Symbol::byte(*byte)).reduce(Symbol::joined).unwrap();
    let table = SymbolTable::new(vec![symbol(b"a"), symbol(b"ab"), symbol(b"abcdefghi"), symbol(b"b\0")]);
    let encoded = |text: &[u8]| {
        let mut encoded = Vec::new();
        table.encode(text, &mut encoded);
        encoded
    };
    let code = |text: &[u8]| table.symbols.iter().position(|known| *known == symbol(text)).unwrap() as u8;
    assert_eq!(encoded(b"abcdefgh"), [code(b"abcdefgh")], "eight bytes are the most");
    assert_eq!(encoded(b"abc"), [code(b"ab"), ESCAPE, b'c'], "the longest is longer than the text");
    assert_eq!(encoded(b"aab"), [code(b"a"), code(b"ab")]);
    assert_eq!(encoded(b"b"), [ESCAPE, b'b'], "the zero behind the text is not part of it");
    assert_eq!(encoded(b"b\0"), [code(b"b\0")]);
}

#[test]
fn long_texts_shrink_as_the_sample_says_wherever_they_lie() {
    let mut random = Random::new(5);
    let mut document = |length: usize| -> Vec<u8> {
        let mut text = Vec::new();
        while text.len() < length {
            let words =
                *random.pick(&["the temperature of ", "water rises by ", "a degree where ", "the sea is calm; "]);
            text.extend_from_slice(words.as_bytes());
        }
        text
    };
    let one = document(300_000);
    let several: Vec<Vec<u8>> = (0..40).map(|_| document(40_000)).collect();
    let behind_empty: Vec<Vec<u8>> =
        (0..3000).map(|row| if row < 2900 { Vec::new() } else { document(5_000) }).collect();
    for texts in [vec![one.clone()], several, behind_empty, [vec![Vec::new(); 1000], vec![one]].concat()] {
        let size_bytes: usize = texts.iter().map(Vec::len).sum();
        let (table, share) = built(&texts);
        let encoded_bytes = round_trip(&table, &texts);
        let named = format!("{} texts, {encoded_bytes} of {size_bytes} bytes, {share} foretold", texts.len());
        assert!(encoded_bytes * 3 < size_bytes, "{named}");
        assert!((share * size_bytes as f64 / encoded_bytes as f64 - 1.0).abs() < 0.1, "{named}");
    }
    assert!(build(0, [&[][..]; 5].into_iter()).is_none());
}
