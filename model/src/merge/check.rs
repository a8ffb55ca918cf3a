//! What is wrong with single rows, from row and schema alone: found before a part is sent to its owner.

use arrow::array::{Array, BinaryArray, RecordBatch};

use super::{MergeEngine, bitmap};
use crate::reject::{Rejects, RowError};

impl MergeEngine {
    /// The rows of a batch that cannot be merged, whatever is stored: values that are no bitmaps. The batch has been
    /// made to fit the table ([`crate::batch::conform`]); columns that it lacks are not looked at.
    pub fn check(&self, batch: &RecordBatch) -> Rejects {
        let mut rejects = Rejects::default();
        for column in &self.columns {
            let Some(width) = column.fold.bitmap() else { continue };
            let values = batch.column_by_name(&column.name).map(|a| a.as_any().downcast_ref::<BinaryArray>());
            let Some(Some(values)) = values else { continue };
            for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
                let bytes = values.value(row);
                if let Err(why) = bitmap::check(width, bytes) {
                    rejects.add(row as u64, || RowError {
                        row: row as u64,
                        column: Some(column.name.to_string()),
                        expected: width.expected().to_owned(),
                        got: format!("{} bytes: {why}", bytes.len()),
                        ..RowError::default()
                    });
                }
            }
        }
        rejects
    }
}
