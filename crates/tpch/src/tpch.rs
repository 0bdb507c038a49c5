//! One TPC-H table as one text file. Owns the tables' names, the cut into parts and the choice of format.

use std::io::{self, Write};
use std::str::FromStr;

use tpchgen::distribution::Distributions;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

use super::DataSet;
use super::fields::{CsvRecord, FieldNames, JsonObject};
use super::ordered_parts::write_parts;
use super::tables::TpchRow;

/// Rows (for lineitem: orders) in one part: some 0.5 to 4 MB of text, big enough for one write, small enough to spread.
const ROWS_PER_PART: f64 = 5000.0;

/// A table of TPC-H.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are TPC-H's own")]
pub enum TpchTable {
    Customer,
    Lineitem,
    Nation,
    Orders,
    Part,
    Partsupp,
    Region,
    Supplier,
}

impl TpchTable {
    /// All eight, by name.
    pub const ALL: [Self; 8] = [
        Self::Customer,
        Self::Lineitem,
        Self::Nation,
        Self::Orders,
        Self::Part,
        Self::Partsupp,
        Self::Region,
        Self::Supplier,
    ];

    /// The name in SQL and in file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Customer => "customer",
            Self::Lineitem => "lineitem",
            Self::Nation => "nation",
            Self::Orders => "orders",
            Self::Part => "part",
            Self::Partsupp => "partsupp",
            Self::Region => "region",
            Self::Supplier => "supplier",
        }
    }

    /// The rows that parts are cut by, at scale 1: a lineitem or partsupp part follows its order or part.
    fn cut_rows(self) -> f64 {
        match self {
            Self::Customer => 150_000.0,
            Self::Lineitem | Self::Orders => 1_500_000.0,
            Self::Part | Self::Partsupp => 200_000.0,
            Self::Supplier => 10_000.0,
            Self::Nation | Self::Region => 0.0, // fixed tables: one part
        }
    }

    /// Parts at `scale`; never none.
    pub(super) fn part_count(self, scale: f64) -> usize {
        (self.cut_rows() * scale / ROWS_PER_PART) as usize + 1
    }
}

/// How a table is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// A header line, commas, free text in quotes.
    Csv,
    /// One JSON object a line.
    Ndjson,
}

impl TextFormat {
    /// The file name's end, without a dot.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
        }
    }
}

impl FromStr for TextFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "csv" => Ok(Self::Csv),
            "ndjson" => Ok(Self::Ndjson),
            _ => Err(format!("the format is `csv` or `ndjson`, not `{name}`")),
        }
    }
}

/// Writes all of `table` and returns the bytes written.
///
/// # Errors
/// The first error of `out`.
pub fn write_table(data: DataSet<'_>, table: TpchTable, format: TextFormat, out: &mut impl Write) -> io::Result<u64> {
    let part_count = table.part_count(data.scale);
    write_parts(out, part_count, data.thread_count, |index, buffer| {
        let rows = PartWriter { format, header: index == 0, out: buffer };
        let (scale, text, words) = (data.scale, data.text, Distributions::static_default());
        // tpchgen counts parts from 1.
        let (part, parts) = (index as i32 + 1, part_count as i32);
        match table {
            TpchTable::Customer => rows
                .write(CustomerGenerator::new_with_distributions_and_text_pool(scale, part, parts, words, text).iter()),
            TpchTable::Lineitem => rows
                .write(LineItemGenerator::new_with_distributions_and_text_pool(scale, part, parts, words, text).iter()),
            TpchTable::Nation => {
                rows.write(NationGenerator::new_with_distributions_and_text_pool(words, text).iter());
            }
            TpchTable::Orders => {
                rows.write(OrderGenerator::new_with_distributions_and_text_pool(scale, part, parts, words, text).iter())
            }
            TpchTable::Part => {
                rows.write(PartGenerator::new_with_distributions_and_text_pool(scale, part, parts, words, text).iter());
            }
            TpchTable::Partsupp => {
                rows.write(PartSuppGenerator::new_with_text_pool(scale, part, parts, text).iter());
            }
            TpchTable::Region => {
                rows.write(RegionGenerator::new_with_distributions_and_text_pool(words, text).iter());
            }
            TpchTable::Supplier => rows
                .write(SupplierGenerator::new_with_distributions_and_text_pool(scale, part, parts, words, text).iter()),
        }
    })
}

/// Writes the rows of one part.
struct PartWriter<'a> {
    format: TextFormat,
    header: bool,
    out: &'a mut Vec<u8>,
}

impl PartWriter<'_> {
    fn write<R: TpchRow>(self, rows: impl Iterator<Item = R>) {
        match self.format {
            TextFormat::Csv => {
                let mut header = self.header;
                for row in rows {
                    if header {
                        let mut names = FieldNames::default();
                        row.fields(&mut names);
                        self.out.extend_from_slice(names.names.join(",").as_bytes());
                        self.out.push(b'\n');
                        header = false;
                    }
                    let mut record = CsvRecord::begin(self.out);
                    row.fields(&mut record);
                    record.end();
                }
            }
            TextFormat::Ndjson => {
                for row in rows {
                    let mut object = JsonObject::begin(self.out);
                    row.fields(&mut object);
                    object.end();
                    self.out.push(b'\n');
                }
            }
        }
    }
}
