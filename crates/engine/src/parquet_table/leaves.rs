//! Which of a file's leaves are columns that are not nested, by their names.
//!
//! Of wide tables every column is looked up in every file, by every statement. Numbers in the order of their names take
//! four bytes a column.

use datafusion::parquet::file::metadata::ParquetMetaData;

/// See the module.
#[derive(Debug)]
pub(super) struct Leaves {
    by_name: Box<[u32]>,
}

impl Leaves {
    pub(super) fn of(footer: &ParquetMetaData) -> Self {
        let columns = footer.file_metadata().schema_descr().columns();
        let of = |leaf: &u32| columns[*leaf as usize].path().parts();
        // A leaf takes more bytes of a footer, whose length has 32 bits.
        let mut by_name: Vec<u32> = (0..columns.len() as u32).filter(|leaf| of(leaf).len() == 1).collect();
        by_name.sort_by(|one, other| of(one).cmp(of(other)));
        Self { by_name: by_name.into() }
    }

    /// The number of the first column of this name among the leaves of `footer`, which these are of.
    pub(super) fn find(&self, footer: &ParquetMetaData, name: &str) -> Option<usize> {
        let columns = footer.file_metadata().schema_descr().columns();
        let name_of = |leaf: u32| columns[leaf as usize].path().parts().first().map_or("", String::as_str);
        let first = self.by_name.partition_point(|leaf| name_of(*leaf) < name);
        let leaf = *self.by_name.get(first)?;
        (name_of(leaf) == name).then_some(leaf as usize)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.by_name)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use datafusion::parquet::file::metadata::FileMetaData;
    use datafusion::parquet::schema::parser::parse_message_type;
    use datafusion::parquet::schema::types::SchemaDescriptor;

    use super::*;

    #[test]
    fn columns_are_found_by_their_names_and_nested_ones_are_not() {
        let schema = "message m {
            optional int32 b; optional group g { optional int32 a; optional int32 b; } optional int32 a;
            optional int32 c; optional int32 b; }";
        let columns = Arc::new(SchemaDescriptor::new(Arc::new(parse_message_type(schema).unwrap())));
        let footer = ParquetMetaData::new(FileMetaData::new(1, 0, None, None, columns, None), Vec::new());
        let leaves = Leaves::of(&footer);
        for (name, leaf) in [("a", Some(3)), ("b", Some(0)), ("c", Some(4)), ("g", None), ("", None), ("d", None)] {
            assert_eq!(leaves.find(&footer, name), leaf, "{name}");
        }
    }
}
