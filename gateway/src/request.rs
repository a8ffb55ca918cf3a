//! What every request carries: an id, names in its path, and query parameters.

use std::collections::BTreeMap;

use axum::extract::{FromRequestParts, Path, Query};
use http::request::Parts;
use wadi_model::suggest::{did_you_mean, nearest};
use wadi_model::{DatabaseName, ErrorKind, TableName};

use crate::app::Gateway;
use crate::problem::Problem;
use crate::trace::REQUEST_ID;

/// Longest request id that is taken over from a client.
const MAX_REQUEST_ID: usize = 128;

/// The id under which a request is found in answers, logs and traces.
#[derive(Clone, Debug)]
pub struct RequestId(pub String);

impl RequestId {
    /// The client's id if it sent a usable one, else a new one.
    pub fn of(headers: &http::HeaderMap, gateway: &Gateway) -> RequestId {
        let given = headers.get(REQUEST_ID).and_then(|v| v.to_str().ok());
        let usable = |id: &&str| {
            !id.is_empty() && id.len() <= MAX_REQUEST_ID && id.bytes().all(|b| b.is_ascii_graphic())
        };
        match given.filter(usable) {
            Some(id) => RequestId(id.to_owned()),
            None => RequestId(format!("{:032x}", gateway.env().unique())),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for RequestId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<RequestId, Problem> {
        let missing = || Problem::new(ErrorKind::Internal, "internal", "the request has no id");
        parts.extensions.get().cloned().ok_or_else(missing)
    }
}

/// The table in the path.
pub struct TablePath(pub TableName);

impl FromRequestParts<Gateway> for TablePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Gateway) -> Result<TablePath, Problem> {
        let path = Path::<BTreeMap<String, String>>::from_request_parts(parts, state).await;
        let Path(path) = path.map_err(|e| Problem::new(ErrorKind::Invalid, "invalid_path", e.to_string()))?;
        let part = |name: &str| path.get(name).cloned().unwrap_or_default();
        // Tables of rejected rows have names that users cannot give, but may read.
        let (database, table) = (part("database"), part("table"));
        let database: DatabaseName = database.parse()?;
        let name = match table.strip_suffix("__rejected") {
            Some(of) => TableName::new(database, of)?.rejected_of(),
            None => TableName::new(database, &table)?,
        };
        // Another gateway may have made it a moment ago.
        state.catalog().meet(&name).await?;
        Ok(TablePath(name))
    }
}

/// The database in the path.
pub struct DatabasePath(pub DatabaseName);

impl<S: Send + Sync> FromRequestParts<S> for DatabasePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<DatabasePath, Problem> {
        let path = Path::<BTreeMap<String, String>>::from_request_parts(parts, state).await;
        let Path(path) = path.map_err(|e| Problem::new(ErrorKind::Invalid, "invalid_path", e.to_string()))?;
        Ok(DatabasePath(path.get("database").cloned().unwrap_or_default().parse()?))
    }
}

/// The query parameters; each is taken once, and none may be left over.
#[derive(Debug)]
pub struct Parameters {
    given: BTreeMap<String, String>,
    known: Vec<&'static str>,
}

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Parameters, Problem> {
        let query = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Query(pairs) = query.map_err(|e| invalid(e.to_string()))?;
        let mut given = BTreeMap::new();
        for (name, value) in pairs {
            if given.insert(name.clone(), value).is_some() {
                return Err(invalid(format!("parameter \"{name}\" stands twice in the query")));
            }
        }
        Ok(Parameters { given, known: Vec::new() })
    }
}

impl FromIterator<(String, String)> for Parameters {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(given: I) -> Parameters {
        Parameters { given: given.into_iter().collect(), known: Vec::new() }
    }
}

fn invalid(detail: String) -> Problem {
    Problem::new(ErrorKind::Invalid, "invalid_parameter", detail)
}

impl Parameters {
    /// A parameter as text.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        self.given.remove(name)
    }

    /// A parameter as a whole number of at most `max`; larger ones count as `max`.
    pub fn number(&mut self, name: &'static str, default: u64, max: u64) -> Result<u64, Problem> {
        match self.text(name) {
            None => Ok(default.min(max)),
            Some(text) => match text.parse::<u64>() {
                Ok(n) => Ok(n.min(max)),
                Err(_) => Err(invalid(format!("parameter \"{name}\" is \"{text}\"; write a whole number"))),
            },
        }
    }

    /// What nobody took.
    pub fn rest(self) -> impl Iterator<Item = (String, String)> {
        self.given.into_iter()
    }

    /// Refuses what nobody took.
    pub fn finish(self) -> Result<(), Problem> {
        match self.given.into_keys().next() {
            None => Ok(()),
            Some(stray) => {
                let hint = did_you_mean(nearest(&stray, self.known.iter().copied()));
                Err(invalid(format!("parameter \"{stray}\" is not known here{hint}")))
            }
        }
    }
}

/// The names of a list with commas; one with a comma in itself stands in double quotes, which are doubled inside it.
pub fn split_names(list: &str) -> Vec<String> {
    let (mut names, mut name, mut quoted) = (Vec::new(), String::new(), false);
    let mut rest = list.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => name.extend(rest.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => names.push(std::mem::take(&mut name)),
            c => name.push(c),
        }
    }
    names.push(name);
    names.into_iter().map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::split_names;

    #[test]
    fn names_with_commas_are_quoted() {
        assert_eq!(split_names("a, b,,c"), ["a", "b", "c"]);
        assert_eq!(split_names(r#"a,"b,""c""",d"#), ["a", r#"b,"c""#, "d"]);
        assert!(split_names("").is_empty());
    }
}
