//! `/v1/databases`: the namespaces of tables.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use wadi_meta::catalog::Database;
use wadi_model::ErrorKind;

use crate::app::Gateway;
use crate::problem::Problem;
use crate::request::DatabasePath;

/// A request to make a database.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateDatabase {
    /// Its name: letters, digits, `_` and `-`.
    name: String,
    /// For people.
    #[serde(default)]
    comment: Option<String>,
    /// Answer 200 instead of 409 if it exists already.
    #[serde(default)]
    if_not_exists: bool,
}

/// A list of databases.
#[derive(Debug, Serialize)]
pub struct Databases {
    databases: Vec<std::sync::Arc<Database>>,
}

/// The JSON body of a request, or what is wrong with it.
pub(super) fn json<T>(body: Result<Json<T>, JsonRejection>) -> Result<T, Problem> {
    body.map(|Json(value)| value).map_err(|e| {
        let kind = if e.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            ErrorKind::UnsupportedMedia
        } else if e.status() == StatusCode::PAYLOAD_TOO_LARGE {
            ErrorKind::TooLarge
        } else {
            ErrorKind::Invalid
        };
        Problem::new(kind, "invalid_json_body", e.body_text())
    })
}

/// Lists all databases.
#[utoipa::path(get, path = "/v1/databases", tag = "databases", responses((status = 200, description = "All databases")))]
pub async fn list(State(gateway): State<Gateway>) -> Json<Databases> {
    Json(Databases { databases: gateway.catalog().databases() })
}

/// Makes a database.
#[utoipa::path(post, path = "/v1/databases", tag = "databases", request_body = CreateDatabase,
    responses((status = 201, description = "Made"), (status = 409, description = "Exists already")))]
pub async fn create(
    State(gateway): State<Gateway>,
    body: Result<Json<CreateDatabase>, JsonRejection>,
) -> Result<Response, Problem> {
    let request = json(body)?;
    let name = request.name.parse()?;
    let made = gateway.catalog().create_database(&name, request.comment, gateway.env().now_millis()).await;
    match made {
        Ok(database) => Ok((StatusCode::CREATED, Json(database)).into_response()),
        Err(error) => match gateway.catalog().database(&name) {
            Ok(database) if request.if_not_exists => Ok(Json(database).into_response()),
            _ => Err(error.into()),
        },
    }
}

/// Shows a database.
#[utoipa::path(get, path = "/v1/databases/{database}", tag = "databases", params(("database" = String, Path)),
    responses((status = 200, description = "The database"), (status = 404, description = "Does not exist")))]
pub async fn show(
    State(gateway): State<Gateway>,
    DatabasePath(name): DatabasePath,
) -> Result<Json<std::sync::Arc<Database>>, Problem> {
    Ok(Json(gateway.catalog().database(&name)?))
}

/// Takes an empty database away.
#[utoipa::path(delete, path = "/v1/databases/{database}", tag = "databases", params(("database" = String, Path)),
    responses((status = 204, description = "Gone"), (status = 409, description = "Still has tables")))]
pub async fn drop_database(
    State(gateway): State<Gateway>,
    DatabasePath(name): DatabasePath,
) -> Result<StatusCode, Problem> {
    gateway.catalog().drop_database(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}
