//! Rows of one schema version.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};

use super::fault::{Damage, DamagedRow, RowFault};
use super::read::{end, read_value};
use super::rows::Rows;
use super::take::{Frame, NullBits, set_null, take_array};
use super::write::{put_sized, put_value};
use crate::columns::{Builder, View};
use crate::ids::SchemaId;
use crate::schema::Schema;

/// Bytes before the null bits.
const HEADER: usize = 2;

/// Writes and reads the stored rows of one schema version. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RowCodec {
    schema: Schema,
    frames: Arc<[Frame]>,
}

impl RowCodec {
    /// A codec for the rows of a schema version.
    pub fn new(schema: &Schema) -> RowCodec {
        let frames = schema.columns().iter().map(|column| Frame::of(&column.data_type)).collect();
        RowCodec { schema: schema.clone(), frames }
    }

    /// The schema version.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The rows of a batch that has all columns, in schema order and of the table's types.
    pub fn encode(&self, batch: &RecordBatch) -> Result<Rows, RowFault> {
        let (given, columns) = (batch.num_columns(), self.frames.len());
        if given != columns {
            return Err(RowFault::Columns { given, columns });
        }
        let positions: Vec<usize> = (0..columns).collect();
        self.encode_columns(&positions, batch.columns(), batch.num_rows())
    }

    /// Rows that have values in some columns only, and nulls in all others. `columns[i]` is the position of
    /// `arrays[i]` in the schema.
    pub fn encode_columns(
        &self,
        columns: &[usize],
        arrays: &[ArrayRef],
        rows: usize,
    ) -> Result<Rows, RowFault> {
        let views = self.views(columns, arrays, rows)?;
        let mut head = self.schema.id().0.to_le_bytes().to_vec();
        head.resize(HEADER + self.frames.len().div_ceil(8), 0);
        let absent = (0..self.frames.len()).filter(|i| views.binary_search_by_key(i, |view| view.0).is_err());
        absent.for_each(|i| set_null(&mut head[HEADER..], i));

        let mut out = Vec::with_capacity(rows.saturating_mul(head.len() + 8 * views.len()));
        let mut ends = Vec::with_capacity(rows);
        for row in 0..rows {
            let nulls = out.len() + HEADER;
            out.extend_from_slice(&head);
            for (position, view) in &views {
                if view.is_null(row) {
                    set_null(&mut out[nulls..], *position);
                } else {
                    put_value(view.values(), row, &mut out);
                }
            }
            ends.push(u32::try_from(out.len()).map_err(|_| RowFault::TooLarge)?);
        }
        // Who counts the bytes of rows counts the memory that they hold.
        out.shrink_to_fit();
        Ok(Rows::new(out, ends))
    }

    /// The arrays by position, each of its column's type and length.
    fn views(
        &self,
        columns: &[usize],
        arrays: &[ArrayRef],
        rows: usize,
    ) -> Result<Vec<(usize, View)>, RowFault> {
        if columns.len() != arrays.len() {
            return Err(RowFault::Columns { given: arrays.len(), columns: columns.len() });
        }
        let mut views = Vec::with_capacity(arrays.len());
        for (position, array) in columns.iter().zip(arrays) {
            let fields = self.schema.arrow().fields();
            let field = fields.get(*position).ok_or(RowFault::Position { position: *position })?;
            let column = || field.name().clone();
            if array.len() != rows {
                return Err(RowFault::Length { column: column(), rows, got: array.len() });
            }
            let view = View::new(array).filter(|_| array.data_type() == field.data_type());
            views.push((
                *position,
                view.ok_or_else(|| RowFault::Type {
                    column: column(),
                    expected: field.data_type().clone(),
                    got: array.data_type().clone(),
                })?,
            ));
        }
        views.sort_by_key(|(position, _)| *position);
        match views.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(twice) => Err(RowFault::Position { position: twice[0].0 }),
            None => Ok(views),
        }
    }

    /// The columns at the positions `wanted`, in this order, of rows of this schema version. Values of other columns
    /// are skipped. Nulls are nulls, also in columns that have none.
    ///
    /// # Panics
    /// If a wanted position is not in the schema.
    pub fn decode<'a>(
        &self,
        rows: impl IntoIterator<Item = &'a [u8]>,
        wanted: &[usize],
    ) -> Result<Vec<ArrayRef>, DamagedRow> {
        let rows = rows.into_iter();
        let mut builders: Vec<Option<Builder>> = self.frames.iter().map(|_| None).collect();
        for position in wanted {
            let field = self.schema.arrow().field(*position);
            let builder = Builder::new(field.data_type(), rows.size_hint().0);
            builders[*position] = Some(builder.expect("a schema has only types of tables"));
        }
        for (i, row) in rows.enumerate() {
            self.decode_row(row, &mut builders).map_err(|at| self.damaged(i, at))?;
        }
        let finish = |(i, builder): (usize, Option<Builder>)| {
            builder.map(|builder| builder.finish(self.schema.arrow().field(i).data_type()))
        };
        let arrays: Vec<Option<ArrayRef>> = builders.into_iter().enumerate().map(finish).collect();
        Ok(wanted.iter().filter_map(|position| arrays[*position].clone()).collect())
    }

    fn decode_row(&self, row: &[u8], builders: &mut [Option<Builder>]) -> Result<(), At> {
        let (nulls, mut rest) = self.open(row)?;
        for (i, (frame, builder)) in self.frames.iter().zip(builders).enumerate() {
            match (builder, nulls.is_null(i)) {
                (Some(builder), false) => read_value(builder, &mut rest),
                (Some(builder), true) => builder.append_null(),
                (None, false) => frame.take(&mut rest).map(drop),
                (None, true) => Ok(()),
            }
            .map_err(|damage| At { column: Some(i), damage })?;
        }
        Ok(end(rest)?)
    }

    /// Appends the fields of a row, one a column: its bytes without their length, or `None` if it is null. What the
    /// bytes say is not looked at. After an error nothing is appended.
    pub fn split<'a>(&self, row: &'a [u8], fields: &mut Vec<Option<&'a [u8]>>) -> Result<(), DamagedRow> {
        let before = fields.len();
        fields.reserve(self.frames.len());
        self.split_row(row, fields).map_err(|at| {
            fields.truncate(before);
            self.damaged(0, at)
        })
    }

    fn split_row<'a>(&self, row: &'a [u8], fields: &mut Vec<Option<&'a [u8]>>) -> Result<(), At> {
        let (nulls, mut rest) = self.open(row)?;
        for (i, frame) in self.frames.iter().enumerate() {
            let field = match nulls.is_null(i) {
                true => None,
                false => Some(frame.take(&mut rest).map_err(|damage| At { column: Some(i), damage })?),
            };
            fields.push(field);
        }
        Ok(end(rest)?)
    }

    /// Appends the row of these fields: the inverse of [`RowCodec::split`]. Columns behind the last field are null.
    pub fn join(&self, fields: &[Option<&[u8]>], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.schema.id().0.to_le_bytes());
        let nulls = out.len();
        out.resize(nulls + self.frames.len().div_ceil(8), 0);
        for (i, frame) in self.frames.iter().enumerate() {
            match fields.get(i).copied().flatten() {
                None => set_null(&mut out[nulls..], i),
                Some(field) if *frame == Frame::Sized => put_sized(field, out),
                Some(field) => out.extend_from_slice(field),
            }
        }
    }

    /// The default of the column at `position` as a field; `None` if it has none.
    pub fn default_field(&self, position: usize) -> Option<Vec<u8>> {
        let value = self.schema.default_of(position)?;
        let row = self.encode_columns(&[position], std::slice::from_ref(value), 1).ok()?;
        let mut fields = Vec::new();
        self.split(row.get(0), &mut fields).ok()?;
        fields[position].map(<[u8]>::to_vec)
    }

    /// The null bits of a row, and its fields.
    #[inline]
    fn open<'a>(&self, row: &'a [u8]) -> Result<(NullBits<'a>, &'a [u8]), Damage> {
        let mut rest = row;
        let schema = SchemaId(u16::from_le_bytes(take_array(&mut rest)?));
        if schema != self.schema.id() {
            return Err(Damage::OtherSchema(schema));
        }
        Ok((NullBits::take(&mut rest, self.frames.len())?, rest))
    }

    pub(super) fn damaged(&self, row: usize, at: impl Into<At>) -> DamagedRow {
        let At { column, damage } = at.into();
        let column = column.map(|i| self.schema.columns()[i].name.clone());
        DamagedRow { row, schema: self.schema.id(), column, damage }
    }
}

/// Damage and the position of the column that has it.
pub(super) struct At {
    pub(super) column: Option<usize>,
    pub(super) damage: Damage,
}

impl From<Damage> for At {
    fn from(damage: Damage) -> At {
        At { column: None, damage }
    }
}
