use super::*;

const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn headers(parent: &str, state: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(TRACEPARENT, HeaderValue::from_str(parent).unwrap());
    if let Some(state) = state {
        headers.insert(TRACESTATE, HeaderValue::from_str(state).unwrap());
    }
    headers
}

#[test]
fn what_came_is_passed_on_as_it_was_where_nobody_takes_spans() {
    let came = came(&headers(GOOD, Some("a=1,b=2"))).unwrap();
    assert!(came.is_sampled() && came.is_remote());
    let mut passed = HeaderMap::new();
    pass(&mut passed, Some(&came));
    assert_eq!(passed, headers(GOOD, Some("a=1,b=2")));
    assert_eq!(begin(&Span::none(), Some(&came)), Some(came.trace_id()));
    pass(&mut passed, None);
    assert_eq!(passed, headers(GOOD, Some("a=1,b=2")), "without a trace nothing is written");
}

#[test]
fn later_versions_may_say_more() {
    let later = format!("01{}", &GOOD[2..]);
    assert!(came(&headers(&later, None)).is_some());
    assert!(came(&headers(&format!("{later}-more"), None)).is_some());
    assert!(came(&headers(&format!("{later}more"), None)).is_none());
    // Flags that nobody knows yet are passed over.
    let flags = format!("{}fe", &GOOD[..53]);
    assert_eq!(came(&headers(&flags, None)).unwrap().trace_flags(), TraceFlags::NOT_SAMPLED);
}

#[test]
fn everything_else_is_passed_over() {
    let zeros = "0".repeat(32);
    let bad = [
        String::new(),
        "-".repeat(55),
        "00".to_owned(),
        format!("{GOOD}-more"),
        format!("{GOOD} "),
        GOOD.to_uppercase(),
        GOOD.replace("0af7", "+af7"),
        GOOD.replace("0af7651916cd43dd8448eb211c80319c", &zeros),
        GOOD.replace("b7ad6b7169203331", "0000000000000000"),
        format!("ff{}", &GOOD[2..]),
        GOOD[..54].to_owned(),
        "9".repeat(100_000),
    ];
    for bad in bad {
        assert_eq!(came(&headers(&bad, None)), None, "{bad:.60}");
    }
    let mut bytes = HeaderMap::new();
    bytes.insert(TRACEPARENT, HeaderValue::from_bytes(b"00-\xff\xfe").unwrap());
    assert_eq!(came(&bytes), None);
    // A state that cannot be read, or is too large, does not cost the trace.
    for state in ["=", ",,,", "a=1,a=2,=", &format!("a={}", "x".repeat(600)), &",".repeat(60_000)] {
        let context = came(&headers(GOOD, Some(state))).unwrap();
        assert!(context.trace_state().header().len() <= MAX_TRACESTATE, "{state:.60}");
    }
}
