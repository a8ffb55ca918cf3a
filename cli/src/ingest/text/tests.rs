use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Schema};
use proptest::prelude::*;

use super::*;

/// Gives a text in reads of at most `step` bytes.
struct Slowly<'a>(&'a [u8], usize);

impl Read for Slowly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.1.min(buffer.len()).min(self.0.len());
        buffer[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

fn pieces(kind: TextKind, text: &[u8], size: usize, step: usize) -> Vec<Piece> {
    TextPieces::new(kind, Slowly(text, step), size).map(Result::unwrap).collect()
}

fn text(piece: &Piece) -> &[u8] {
    match &piece.content {
        Content::Ndjson(text) | Content::Csv(text) => text,
        Content::Batches(_) => unreachable!(),
    }
}

/// The rows of a CSV text as Arrow's own reader sees them.
fn parse(csv: &[u8]) -> Vec<(String, String)> {
    let fields = ["a", "b"].map(|name| Field::new(name, DataType::Utf8, true));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let reader = arrow::csv::ReaderBuilder::new(schema).with_header(true).build(csv).unwrap();
    let rows = reader.flat_map(|batch| {
        let batch = batch.unwrap();
        let (a, b) = (batch.column(0).as_string::<i32>(), batch.column(1).as_string::<i32>());
        let value = |c: &arrow::array::StringArray, i| c.iter().nth(i).flatten().unwrap_or("").to_owned();
        (0..batch.num_rows()).map(|i| (value(a, i), value(b, i))).collect::<Vec<_>>()
    });
    rows.collect()
}

/// A field as a careful writer writes it; some are quoted without need.
fn field() -> impl Strategy<Value = (String, String)> {
    ("[xy,\"\n\r ]{0,6}", any::<bool>()).prop_map(|(value, quote)| {
        let must = value.contains([',', '"', '\n', '\r']) || value.is_empty();
        let written =
            if must || quote { format!("\"{}\"", value.replace('"', "\"\"")) } else { value.clone() };
        (value, written)
    })
}

proptest! {
    #[test]
    fn csv_is_cut_between_records_and_no_row_changes(
        rows in prop::collection::vec((field(), field()), 0..30),
        size in 1usize..60,
        step in 1usize..40,
        crlf: bool,
        last_end: bool,
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let mut csv = format!("a,b{end}");
        csv.extend(rows.iter().map(|((_, a), (_, b))| format!("{a},{b}{end}")));
        if !last_end {
            csv.truncate(csv.len() - end.len());
        }
        let got = pieces(TextKind::Csv, csv.as_bytes(), size, step);
        let want: Vec<_> = rows.iter().map(|((a, _), (b, _))| (a.clone(), b.clone())).collect();
        let parsed: Vec<_> = got.iter().flat_map(|p| parse(text(p))).collect();
        prop_assert_eq!(parsed, want);
        for piece in &got {
            let header = format!("a,b{end}");
            prop_assert!(text(piece).starts_with(header.as_bytes()));
            prop_assert_eq!(piece.rows, parse(text(piece)).len() as u64);
            prop_assert!(text(piece).len() - header.len() <= size || piece.rows == 1);
        }
        prop_assert_eq!(got.iter().map(|p| p.units).sum::<u64>(), if rows.is_empty() { 0 } else { csv.len() as u64 });
        prop_assert_eq!(pieces(TextKind::Csv, csv.as_bytes(), size, 1 << 20), got);
    }

    #[test]
    fn ndjson_is_cut_at_line_ends_the_same_way_however_it_is_read(
        lines in prop::collection::vec("[a-c\"]{0,12}", 0..40),
        size in 1usize..50,
        step in 1usize..40,
    ) {
        let whole: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let got = pieces(TextKind::Ndjson, whole.as_bytes(), size, step);
        let filled: Vec<&str> = lines.iter().map(String::as_str).filter(|l| !l.is_empty()).collect();
        let joined: Vec<u8> = got.iter().flat_map(|p| text(p).to_vec()).collect();
        let joined = String::from_utf8(joined).unwrap();
        prop_assert_eq!(joined.lines().filter(|l| !l.is_empty()).collect::<Vec<_>>(), filled);
        let (mut number, mut rows) = (0, 0);
        for piece in &got {
            number += 1;
            prop_assert_eq!((piece.number, piece.place.rows), (number, rows));
            rows += piece.rows;
            prop_assert!(piece.raw_bytes as usize <= size || piece.rows == 1);
            let first = String::from_utf8(text(piece).to_vec()).unwrap();
            let at = piece.place.lines.unwrap() as usize;
            prop_assert_eq!(first.lines().next(), lines.get(at).map(String::as_str));
        }
        prop_assert_eq!(pieces(TextKind::Ndjson, whole.as_bytes(), size, 1 << 20), got);
    }
}

proptest! {
    /// A run over the beginning of a file makes the first pieces of a run over all of it.
    #[test]
    fn a_text_that_has_grown_begins_with_the_pieces_that_it_had(
        rows in prop::collection::vec("[a-c]{1,9}", 1..40),
        at in 0usize..40,
        size in 1usize..40,
        step in 1usize..40,
        last_end: bool,
    ) {
        let at = at.min(rows.len());
        let text = |rows: &[String]| rows.iter().map(|row| format!("{row},1\n")).collect::<String>();
        let whole = format!("a,b\n{}", text(&rows));
        let mut first = format!("a,b\n{}", text(&rows[..at]));
        if !last_end && at > 0 {
            first.pop();
        }
        let cut = |text: &str, ends: &[u64]| -> Vec<Piece> {
            let input = Slowly(text.as_bytes(), step);
            TextPieces::new(TextKind::Csv, input, size).cut_at(ends).map(Result::unwrap).collect()
        };
        let before = cut(&first, &[first.len() as u64]);
        let after = cut(&whole, &[first.len() as u64, whole.len() as u64]);
        prop_assert_eq!(&after[..before.len()], &before[..]);
        let parsed: Vec<_> = after.iter().flat_map(|p| parse(self::text(p))).map(|(a, _)| a).collect();
        prop_assert_eq!(parsed, rows);
        let lines: Vec<u64> = after.iter().map(|p| p.place.rows + 1).collect();
        prop_assert_eq!(after.iter().map(|p| p.place.lines.unwrap()).collect::<Vec<_>>(), lines);
    }
}

#[test]
fn a_row_that_was_sent_half_is_told() {
    let text = b"{\"a\":1}\n{\"a\":23}\n";
    let mut pieces = TextPieces::new(TextKind::Ndjson, &text[..], 100).cut_at(&[14, text.len() as u64]);
    assert_eq!(pieces.next().unwrap().unwrap().rows, 2);
    assert!(pieces.next().unwrap().unwrap_err().to_string().contains("before all of it was in the file"));
}

#[test]
fn a_quote_inside_a_plain_field_opens_nothing() {
    let got = pieces(TextKind::Csv, b"a,b\n5\" pipe,x\ny,z\n", 12, 7);
    assert_eq!(got.len(), 2);
    assert_eq!(parse(text(&got[0])), [("5\" pipe".to_owned(), "x".to_owned())]);
}

#[test]
fn the_byte_order_mark_is_no_part_of_the_first_name() {
    let got = pieces(TextKind::Csv, b"\xef\xbb\xbfa,b\n1,2\n", 100, 2);
    assert_eq!(text(&got[0]), b"a,b\n1,2\n");
    assert_eq!(got[0].units, 11);
}

#[test]
fn lines_of_later_pieces_count_from_the_beginning_of_the_file() {
    let got = pieces(TextKind::Csv, b"a,b\n\"1\n1\",2\n3,4\n", 8, 100);
    assert_eq!(got.len(), 2);
    assert_eq!((got[1].place.rows, got[1].place.lines, got[1].place.header_lines), (1, Some(3), 1));
}

#[test]
fn texts_without_rows_have_no_pieces() {
    for text in ["", "a,b", "a,b\n", "\n\n", "\u{feff}"] {
        assert!(pieces(TextKind::Csv, text.as_bytes(), 10, 3).is_empty(), "{text:?}");
    }
    assert!(pieces(TextKind::Ndjson, b"\n \n\n", 2, 1).is_empty());
}

#[test]
fn a_record_without_end_is_refused_before_memory_is_gone() {
    let endless = std::io::repeat(b'x');
    let mut pieces = TextPieces::new(TextKind::Ndjson, endless, 1 << 20);
    assert!(pieces.next().unwrap().unwrap_err().to_string().contains("longer than 32 MiB"));
    assert!(pieces.next().is_none());
}
