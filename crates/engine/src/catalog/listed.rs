//! Tables as `information_schema` lists them: by what is known of them, whether or not they can be read now.
//!
//! One view whose table was dropped, or one file that is gone or damaged, would otherwise be an error of every question
//! about tables. A column table has the columns that the manifest says; what can no longer be planned has none, and is
//! listed all the same. Whoever reads it is told what is wrong.

use std::any::Any;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::common::Result;
use datafusion::datasource::ViewTable;
use datafusion::datasource::empty::EmptyTable;
use datafusion::logical_expr::LogicalPlanBuilder;
use thermocline_column_store::Entry;

use super::definitions::MemoryView;
use super::{Context, FileCatalogList, FileSchema};
use crate::raw_table::RawTable;
use crate::settings::ThermoclineConfig;

/// `information_schema` over these catalogs.
pub(super) fn information_schema(catalogs: &FileCatalogList) -> InformationSchemaProvider {
    let FileCatalogList { inner, context } = catalogs;
    let context = Context { is_listing: true, ..context.clone() };
    let functions = context.session.state().map(|state| state.table_functions().clone()).unwrap_or_default();
    let listed = FileCatalogList { inner: Arc::clone(inner), context };
    InformationSchemaProvider::new(Arc::new(listed)).with_table_functions(functions)
}

impl FileSchema {
    /// The table `name`, to be listed.
    pub(super) async fn listed(
        &self,
        name: &str,
        config: &ThermoclineConfig,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.inner.table(name).await? {
            let kept = table.as_ref() as &dyn Any;
            if let Some(view) = kept.downcast_ref::<MemoryView>() {
                return match self.planned(name, &view.definition, config).await {
                    Ok(table) => Ok(Some(table)),
                    Err(_) => Ok(Some(unplanned(Some(view.definition.clone()))?)),
                };
            }
            let renewed = match kept.downcast_ref::<RawTable>() {
                Some(raw) => raw.renewed(config).await.ok(),
                None => None,
            };
            return Ok(Some(renewed.unwrap_or(table)));
        }
        let Some((_, entry_name, manifest)) = self.stored(name) else { return Ok(None) };
        let definition = match manifest.entries.get(&entry_name) {
            Some(Entry::ColumnTable(table)) => return Ok(Some(Arc::new(EmptyTable::new(Arc::clone(&table.columns))))),
            Some(Entry::View { definition }) => Some(definition.clone()),
            _ => None,
        };
        match self.stored_table(name, config).await {
            Ok(table) => Ok(table),
            Err(_) => Ok(Some(unplanned(definition)?)),
        }
    }
}

/// A view without columns.
fn unplanned(definition: Option<String>) -> Result<Arc<dyn TableProvider>> {
    Ok(Arc::new(ViewTable::new(LogicalPlanBuilder::empty(false).build()?, definition)))
}
