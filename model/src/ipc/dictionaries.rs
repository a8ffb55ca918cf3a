//! The dictionaries of a stream.

use std::collections::HashMap;

use arrow::array::{Array, ArrayData, make_array, new_empty_array};
use arrow::datatypes::{DataType, Field};

use super::decode::Budget;
use super::error::IpcError;
use super::plain_size;
use super::shape::count_stored;

/// Dictionary ids of a field and those below it; shaped like the field, but without the parts that have none.
/// Below a dictionary are the fields of its values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ids {
    pub(super) id: Option<i64>,
    pub(super) children: Vec<Ids>,
}

static NO_IDS: Ids = Ids { id: None, children: Vec::new() };

impl Ids {
    pub(super) fn child(&self, index: usize) -> &Ids {
        self.children.get(index).unwrap_or(&NO_IDS)
    }
}

/// One dictionary of the schema.
#[derive(Debug)]
struct Dictionary {
    /// A field with the type of the values, to decode them by.
    field: Field,
    /// Dictionaries inside of the values.
    ids: Ids,
    /// What the stream has sent so far.
    values: Option<ArrayData>,
}

/// The dictionaries of a schema, by id, with the values the stream has sent so far.
#[derive(Debug, Default)]
pub(super) struct Dictionaries {
    by_id: HashMap<i64, Dictionary>,
}

impl Dictionaries {
    /// Registers a dictionary of the schema. Fields may share one if its values have one type.
    pub(super) fn declare(&mut self, id: i64, value: &DataType, ids: Ids) -> Result<(), String> {
        let field = Field::new(format!("dictionary {id}"), value.clone(), true);
        let declared =
            self.by_id.entry(id).or_insert_with(|| Dictionary { field, ids: ids.clone(), values: None });
        if declared.field.data_type() != value || declared.ids != ids {
            return Err(format!(
                "dictionary {id} has values of type {} elsewhere",
                declared.field.data_type()
            ));
        }
        Ok(())
    }

    /// The field to decode the values of a dictionary by.
    pub(super) fn field(&self, id: i64) -> Option<(&Field, &Ids)> {
        self.by_id.get(&id).map(|dictionary| (&dictionary.field, &dictionary.ids))
    }

    /// Whether the stream has sent a dictionary.
    pub(super) fn has_values(&self, id: i64) -> bool {
        self.by_id.get(&id).is_some_and(|dictionary| dictionary.values.is_some())
    }

    /// Sets the values of a declared dictionary, or replaces them; batches decoded before keep the old ones.
    pub(super) fn set(&mut self, id: i64, values: ArrayData) {
        if let Some(dictionary) = self.by_id.get_mut(&id) {
            dictionary.values = Some(values);
        }
    }

    /// Appends values to a dictionary. The result is a new array, which the budget pays for: batches may hold each
    /// of the old ones.
    pub(super) fn extend(&mut self, id: i64, delta: ArrayData, budget: &mut Budget) -> Result<(), IpcError> {
        let Some(Dictionary { field, values: Some(base), .. }) = self.by_id.get(&id) else {
            return Err(IpcError::message(format!("delta of dictionary {id}, which is not there")));
        };
        let problem = |problem: String| IpcError::Column { column: field.name().clone(), problem };
        let mergeable = matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView)
            || count_stored(field.name(), field.data_type()).is_ok();
        if !mergeable {
            return Err(problem(format!(
                "a delta of {} is not supported; send the whole",
                field.data_type()
            )));
        }
        let (base, delta) = (make_array(base.clone()), make_array(delta));
        let bytes = plain_size::of(&base).saturating_add(plain_size::of(&delta));
        budget.take(bytes)?;
        // Arrow's concat panics when offsets overflow.
        if i32::try_from(bytes).is_err() || i32::try_from(base.len() + delta.len()).is_err() {
            return Err(problem(format!("{bytes} bytes are too many to extend; a dictionary holds 2 GiB")));
        }
        let merged = arrow::compute::concat(&[&base, &delta]).map_err(|error| problem(error.to_string()))?;
        self.set(id, merged.to_data());
        Ok(())
    }

    /// The values of a dictionary column. Writers leave a dictionary out when all keys are null; keys that are not
    /// null are then out of bounds.
    pub(super) fn values(&self, ids: &Ids, value: &DataType) -> ArrayData {
        let sent = ids.id.and_then(|id| self.by_id.get(&id)).and_then(|dictionary| dictionary.values.clone());
        sent.unwrap_or_else(|| new_empty_array(value).to_data())
    }
}
