use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family;
use prometheus_client::metrics::gauge;
use prometheus_client::metrics::histogram;
use prometheus_client::registry::Unit;

use super::*;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kinds {
    kind: String,
}

fn of(registry: &Registry) -> Vec<Metric> {
    let mut shown = String::new();
    encode(&mut shown, registry).unwrap();
    let times = Times { began: 1, now: 2 };
    openmetrics::read(&shown).into_iter().map(|family| metric(family, times)).collect()
}

fn numbers(points: &[NumberDataPoint]) -> Vec<(Vec<KeyValue>, number_data_point::Value)> {
    points.iter().map(|point| (point.attributes.clone(), point.value.unwrap())).collect()
}

#[test]
fn what_the_registry_shows_is_sent() {
    use number_data_point::Value::{AsDouble, AsInt};
    let mut registry = Registry::with_prefix("wadi_x");
    let (rows, seconds) =
        (Counter::<u64>::default(), Counter::<f64, std::sync::atomic::AtomicU64>::default());
    let debt = family::Family::<Kinds, gauge::Gauge>::default();
    registry.register("rows", "Rows, \"so\" many", rows.clone());
    registry.register_with_unit("spent", "Time", Unit::Seconds, seconds.clone());
    registry.register_with_unit("debt", "Waiting", Unit::Bytes, debt.clone());
    rows.inc_by(3);
    seconds.inc_by(0.25);
    let strange = "a, d=e} {f";
    debt.get_or_create(&Kinds { kind: strange.to_owned() }).set(-7);
    debt.get_or_create(&Kinds { kind: "log".to_owned() }).set(1 << 40);
    let metrics = of(&registry);
    assert_eq!(
        metrics.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(),
        ["wadi_x_rows", "wadi_x_spent_seconds", "wadi_x_debt_bytes"]
    );
    assert_eq!(metrics.iter().map(|m| m.unit.as_str()).collect::<Vec<_>>(), ["", "s", "By"]);
    assert_eq!(metrics[0].description, "Rows, \"so\" many.");
    let Some(metric::Data::Sum(sum)) = &metrics[0].data else { panic!("{:?}", metrics[0]) };
    assert!(sum.is_monotonic && sum.aggregation_temporality == AggregationTemporality::Cumulative as i32);
    assert_eq!(numbers(&sum.data_points), [(vec![], AsInt(3))]);
    assert_eq!((sum.data_points[0].start_time_unix_nano, sum.data_points[0].time_unix_nano), (1, 2));
    let Some(metric::Data::Sum(sum)) = &metrics[1].data else { panic!("{:?}", metrics[1]) };
    assert_eq!(numbers(&sum.data_points), [(vec![], AsDouble(0.25))]);
    let Some(metric::Data::Gauge(gauge)) = &metrics[2].data else { panic!("{:?}", metrics[2]) };
    let kind = |name: &str| vec![text("kind", name.to_owned())];
    assert_eq!(numbers(&gauge.data_points), [(kind(strange), AsInt(-7)), (kind("log"), AsInt(1 << 40))]);
}

#[test]
fn histograms_have_what_is_in_each_bucket() {
    let mut registry = Registry::default();
    let ack = histogram::Histogram::new([0.001, 0.01, 0.1]);
    registry.register_with_unit("ack", "From arrival to ack", Unit::Seconds, ack.clone());
    for seconds in [0.0005, 0.002, 0.003, 0.05, 7.0] {
        ack.observe(seconds);
    }
    let metrics = of(&registry);
    let Some(metric::Data::Histogram(histogram)) = &metrics[0].data else { panic!("{metrics:?}") };
    let point = &histogram.data_points[0];
    assert_eq!(point.explicit_bounds, [0.001, 0.01, 0.1]);
    assert_eq!(point.bucket_counts, [1, 2, 1, 1]);
    assert_eq!((point.count, point.sum), (5, Some(7.0555)));
}

#[test]
fn values_of_labels_are_unescaped() {
    let text = "# TYPE a gauge\na{b=\"x \\\"y\\\" \\\\ z\\n\",c=\"}\"} 1\n";
    let labels = &openmetrics::read(text)[0].samples[0].labels;
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(*labels, [pair("b", "x \"y\" \\ z\n"), pair("c", "}")]);
}

#[test]
fn lines_that_are_not_understood_are_left_out() {
    let text = "x 1\n# TYPE a counter\na_total{b=\"c} 5\na_total nothing\na_total\n# \n# HELP\na_total 5 # {} 1\n# EOF\n";
    let families = openmetrics::read(text);
    assert_eq!(families.len(), 1);
    assert_eq!(families[0].samples.len(), 1, "{families:?}");
    assert_eq!(families[0].samples[0].value, 5.0);
}

#[test]
fn headers_are_a_list() {
    let headers = headers_of("Api-Key=a%20b, x=1=2,").unwrap();
    assert_eq!(headers.get("api-key").unwrap(), "a b");
    assert_eq!(headers.get("x").unwrap(), "1=2");
    for bad in ["a", "a=%zz", "a b=c", "a=%ff"] {
        assert!(headers_of(bad).is_err(), "{bad}");
    }
}
