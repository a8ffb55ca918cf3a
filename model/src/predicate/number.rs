//! Numbers of any size and scale, exactly as written, and where they lie between the values of a column.

/// Where an exact value lies on the grid of the integers `i128`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grid {
    /// On this point.
    At(i128),
    /// Strictly between this point and the next.
    After(i128),
    /// Above all points.
    Above,
    /// Below all points.
    Below,
}

/// `±digits · 10^exponent`. Digits have no zero at either end; zero has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Number {
    negative: bool,
    digits: String,
    exponent: i64,
}

/// Exponents beyond are no different from this one: no text is long enough to bring them back.
const MAX_EXPONENT: i64 = 1 << 40;

impl Number {
    /// Reads `12`, `1.5`, `.5`, `5.`, `1e-7`. `None` for anything else.
    pub(super) fn parse(text: &str, negative: bool) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let trimmed = digits.trim_end_matches('0');
        // Lengths are those of a text in memory, far below i64::MAX.
        let exponent = exponent - fraction.len() as i64 + (digits.len() - trimmed.len()) as i64;
        Some(Self { negative, digits: trimmed.trim_start_matches('0').to_owned(), exponent })
    }

    /// The number times `10^scale` on the grid of integers.
    pub(super) fn on_grid(&self, scale: i8) -> Grid {
        let exponent = self.exponent + i64::from(scale);
        let length = self.digits.len() as i64;
        if length == 0 {
            return Grid::At(0);
        }
        // 38 digits always fit i128; no decimal or integer type has more.
        if length + exponent > 38 {
            return if self.negative { Grid::Below } else { Grid::Above };
        }
        let whole_digits = usize::try_from(length + exponent.min(0)).unwrap_or(0);
        let whole: i128 = self.digits[..whole_digits].parse().unwrap_or(0);
        let zeros = u32::try_from(exponent.max(0)).unwrap_or(0);
        let whole = whole * 10_i128.pow(zeros);
        match (exponent < 0, self.negative) {
            (false, false) => Grid::At(whole),
            (false, true) => Grid::At(-whole),
            (true, false) => Grid::After(whole),
            (true, true) => Grid::After(-whole - 1),
        }
    }
}

fn parse_exponent(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = digits.parse().unwrap_or(MAX_EXPONENT).min(MAX_EXPONENT);
    Some(if negative { -value } else { value })
}
