//! What an object store says when it refuses, in words that may be shown.
//!
//! S3 answers an error with an XML document, and object_store puts all of it in its message. Some of these documents repeat
//! what the request was signed with: the session token of the credentials, the string that was signed. So of a document only the code and
//! the message go on, and for the codes that a person can do something about, what that is.

use object_store::{Error, Result};

const STORE: &str = "S3";

/// Codes by which a store refuses who asks, whatever the status of its answer is. Some come with 400.
const REFUSALS: [&str; 7] = [
    "AccessDenied",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
];

/// What a store said, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Plain(String);

/// The same outcome with an error that may be shown.
pub(super) fn plain<T>(outcome: Result<T>) -> Result<T> {
    outcome.map_err(error)
}

/// The same error, as one that may be shown.
pub(super) fn error(error: Error) -> Error {
    match error {
        Error::PermissionDenied { path, source } => {
            Error::PermissionDenied { path, source: Box::new(Plain(words(&source.to_string()))) }
        }
        Error::Unauthenticated { path, source } => {
            Error::Unauthenticated { path, source: Box::new(Plain(words(&source.to_string()))) }
        }
        Error::Generic { source, .. } => {
            Error::Generic { store: STORE, source: Box::new(Plain(words(&with_causes(source.as_ref())))) }
        }
        other => other,
    }
}

/// The words of a store that refuses who asks, and not what is asked.
pub(super) fn refusal(error: &Error) -> Option<String> {
    match error {
        Error::PermissionDenied { source, .. } | Error::Unauthenticated { source, .. } => {
            Some(source.to_string())
        }
        Error::Generic { source, .. } => {
            let words = source.to_string();
            REFUSALS.iter().any(|code| words.starts_with(code)).then_some(words)
        }
        _ => None,
    }
}

/// An error in as few words as say all: those of the store alone, where it refuses.
pub(crate) fn told(error: &Error) -> String {
    refusal(error).unwrap_or_else(|| error.to_string())
}

fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !told.contains(&more) {
            told = format!("{told}: {more}");
        }
        cause = error.source();
    }
    told
}

/// A message in which an XML document, from its beginning to the end of the message, is replaced by what it says.
fn words(message: &str) -> String {
    let begin = ["<?xml", "<Error", "<error"].iter().filter_map(|mark| message.find(mark)).min();
    let Some((before, document)) = begin.and_then(|at| message.split_at_checked(at)) else {
        return message.to_owned();
    };
    let Some(code) = element(document, "Code") else {
        return format!("{}(a document without a code)", before);
    };
    let message = element(document, "Message").map(|told| format!(" ({told})")).unwrap_or_default();
    let hint = hint(code).map(|hint| format!("; {hint}")).unwrap_or_default();
    // The code comes first: the rest may be cut.
    format!("{code}{message}{hint}; {}", before.trim_end_matches([' ', ':', '-']))
}

/// The text of the first element of this name, if it is short enough to be one.
fn element<'a>(document: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = document.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    Some(text).filter(|text| text.len() <= 300 && !text.contains('<'))
}

/// What a person can do about a code.
fn hint(code: &str) -> Option<&'static str> {
    Some(match code {
        "AccessDenied" | "AllAccessDisabled" => {
            "the credentials lack a permission, or a policy of the bucket refuses them"
        }
        "RequestTimeTooSkewed" => {
            "the clock of this machine is more than 15 minutes off that of the store; set it by NTP"
        }
        "ExpiredToken" | "TokenRefreshRequired" => "the credentials have expired, and no new ones came",
        "InvalidAccessKeyId" | "InvalidToken" | "InvalidClientTokenId" => {
            "the store does not know these credentials"
        }
        "SignatureDoesNotMatch" => "the secret key does not belong to the access key",
        "PermanentRedirect" | "AuthorizationHeaderMalformed" => {
            "the bucket may be in another region; give --s3-region"
        }
        "NoSuchBucket" => "make the bucket with `wadi admin init`",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(message: &str) -> String {
        let source = message.to_owned().into();
        error(Error::PermissionDenied { path: "a/b".into(), source }).to_string()
    }

    #[test]
    fn of_a_document_only_code_and_message_are_told() {
        let document = "Error performing PUT http://h/b/a in 3ms - Server returned non-2xx status code: 403 Forbidden: \
            <?xml version=\"1.0\"?><Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message>\
            <Token-0>SECRET</Token-0></Error>";
        let told = denied(document);
        for part in [
            "a/b",
            "ExpiredToken (The provided token has expired.)",
            "no new ones came",
            "PUT http://h/b/a",
            "403",
        ] {
            assert!(told.contains(part), "{part} is missing in {told}");
        }
        assert!(!told.contains("SECRET") && !told.contains('<'), "{told}");
    }

    #[test]
    fn no_part_of_a_document_that_is_not_understood_is_told() {
        for document in
            ["<Error>SECRET", "<?xml?><Code>SECRET<b></Code>", "<Error><Code>a</Code><Message>SECRET</Error>"]
        {
            let told = denied(&format!("403: {document}"));
            assert!(!told.contains("SECRET"), "{told}");
            assert!(told.contains("403"), "{told}");
        }
    }

    #[test]
    fn what_is_no_document_stays() {
        assert!(denied("connection refused").contains("connection refused"));
        let source = "x".to_owned().into();
        let kept = error(Error::NotFound { path: "p".into(), source });
        assert!(matches!(kept, Error::NotFound { .. }));
        let clock = Error::Generic {
            store: "S3",
            source: "403 <Error><Code>RequestTimeTooSkewed</Code></Error>".into(),
        };
        assert!(error(clock).to_string().contains("15 minutes off"));
    }
}
