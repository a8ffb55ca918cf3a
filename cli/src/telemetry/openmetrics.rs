//! Reads what `/metrics` shows, as the registry writes it: OpenMetrics text.
//!
//! The registry can be read in no other way. What it writes is regular: each family has its `HELP`, `TYPE` and `UNIT` lines
//! before its samples. A line that is not understood is left out.

use std::collections::BTreeMap;

/// Metrics of one name.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) help: String,
    pub(super) unit: String,
    pub(super) kind: Kind,
    pub(super) samples: Vec<Sample>,
}

/// What a family's values are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Histogram,
    #[default]
    Gauge,
}

/// Labels and their values, in their order.
pub(super) type Labels = Vec<(String, String)>;

/// A line with a value.
#[derive(Debug, PartialEq)]
pub(super) struct Sample {
    /// What stands behind the family's name: `_total`, `_bucket`, …
    pub(super) suffix: String,
    pub(super) labels: Labels,
    pub(super) value: f64,
}

/// One histogram of a family.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Histogram {
    pub(super) sum: f64,
    pub(super) count: u64,
    /// Upper bounds, without the last one, which is infinite.
    pub(super) bounds: Vec<f64>,
    /// How many are in each bucket; one more than bounds.
    pub(super) counts: Vec<u64>,
}

/// All families of a text.
pub(super) fn read(text: &str) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for line in text.lines() {
        if let Some(about) = line.strip_prefix("# ") {
            let mut words = about.splitn(3, ' ');
            let (Some(what), Some(name)) = (words.next(), words.next()) else { continue };
            let said = words.next().unwrap_or_default().to_owned();
            if families.last().is_none_or(|family| family.name != name) {
                families.push(Family { name: name.to_owned(), ..Family::default() });
            }
            let Some(family) = families.last_mut() else { continue };
            match what {
                "HELP" => family.help = said,
                "UNIT" => family.unit = said,
                "TYPE" if said == "counter" => family.kind = Kind::Counter,
                "TYPE" if said == "histogram" => family.kind = Kind::Histogram,
                _ => {}
            }
        } else if let Some(family) = families.last_mut()
            && let Some(sample) = line.strip_prefix(family.name.as_str()).and_then(sample)
        {
            family.samples.push(sample);
        }
    }
    families.retain(|family| !family.samples.is_empty());
    families
}

/// What stands behind a family's name in a line: `_total{kind="log"} 5`.
fn sample(rest: &str) -> Option<Sample> {
    let end = rest.find(['{', ' '])?;
    let (suffix, rest) = rest.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (Labels::new(), rest),
    };
    // Behind the value a time or an exemplar may stand.
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { suffix: suffix.to_owned(), labels, value })
}

/// Reads labels up to their closing brace, and gives what is behind it.
fn labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Labels::new();
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((labels, behind));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = quoted.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') => value.push(match characters.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, other) => value.push(other),
            }
        };
        labels.push((name.to_owned(), value));
        rest = &quoted[end + 1..];
    }
}

/// The histograms of a family, by their labels.
pub(super) fn histograms(samples: Vec<Sample>) -> BTreeMap<Labels, Histogram> {
    let mut all: BTreeMap<Labels, Histogram> = BTreeMap::new();
    // How many are in all buckets so far, of each.
    let mut below: BTreeMap<Labels, u64> = BTreeMap::new();
    for Sample { suffix, mut labels, value } in samples {
        let bound = labels.iter().position(|(name, _)| name == "le").map(|at| labels.remove(at).1);
        let below = below.entry(labels.clone()).or_default();
        let histogram = all.entry(labels).or_default();
        match (suffix.as_str(), bound) {
            ("_sum", _) => histogram.sum = value,
            ("_count", _) => histogram.count = value as u64,
            ("_bucket", Some(bound)) => {
                histogram.counts.push((value as u64).saturating_sub(*below));
                *below = value as u64;
                histogram.bounds.extend(bound.parse::<f64>().ok().filter(|bound| bound.is_finite()));
            }
            _ => {}
        }
    }
    all
}
