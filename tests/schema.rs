//! Values against our schemas: the keywords those use, and a panic at any other, so that none is passed over.
//!
//! (JSON Schema 2020-12. A complete validator costs two minutes of compilation here; the part we use is this.)

use serde_json::Value;

/// Checks a value.
///
/// # Panics
/// With the place of the first difference, or at a keyword that is unknown here.
pub(crate) fn check(schema: &Value, value: &Value, place: &str) {
    let keywords = schema.as_object().expect("a schema is an object");
    for (keyword, wanted) in keywords {
        let holds = match keyword.as_str() {
            "$schema" | "$id" | "title" | "description" => true,
            "type" => match wanted {
                Value::Array(kinds) => kinds.iter().any(|kind| is(kind, value)),
                kind => is(kind, value),
            },
            "const" => value == wanted,
            "enum" => wanted.as_array().expect("a list").contains(value),
            "minimum" => value
                .as_f64()
                .is_none_or(|n| n >= wanted.as_f64().expect("a number")),
            "maximum" => value
                .as_f64()
                .is_none_or(|n| n <= wanted.as_f64().expect("a number")),
            "minItems" => value
                .as_array()
                .is_none_or(|items| items.len() as u64 >= wanted.as_u64().expect("a number")),
            "pattern" => value
                .as_str()
                .is_none_or(|text| matches(wanted.as_str().expect("text"), text)),
            "required" => {
                let names = wanted.as_array().expect("a list").iter();
                let mut names = names.map(|name| name.as_str().expect("a name"));
                // What is no object lacks nothing; whether it may be none says the type.
                value
                    .as_object()
                    .is_none_or(|fields| names.all(|name| fields.contains_key(name)))
            }
            "additionalProperties" => {
                assert_eq!(*wanted, false, "{place}: only `false` is known here");
                let known = |name: &String| {
                    let patterns = keywords.get("patternProperties").and_then(Value::as_object);
                    keywords
                        .get("properties")
                        .is_some_and(|known| known.get(name).is_some())
                        || patterns
                            .is_some_and(|patterns| patterns.keys().any(|pattern| matches(pattern, name)))
                };
                value.as_object().is_none_or(|fields| fields.keys().all(known))
            }
            "patternProperties" => {
                for (pattern, schema) in wanted.as_object().expect("patterns") {
                    let fields = value.as_object().into_iter().flatten();
                    for (name, field) in fields.filter(|(name, _)| matches(pattern, name)) {
                        check(schema, field, &format!("{place}/{name}"));
                    }
                }
                true
            }
            "properties" => {
                for (name, schema) in wanted.as_object().expect("properties") {
                    if let Some(field) = value.get(name) {
                        check(schema, field, &format!("{place}/{name}"));
                    }
                }
                true
            }
            "items" => {
                for (number, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(wanted, item, &format!("{place}/{number}"));
                }
                true
            }
            other => panic!("{place}: the keyword `{other}` is not known here"),
        };
        assert!(holds, "{place}: `{keyword}` wants {wanted}, there is {value}");
    }
}

fn is(kind: &Value, value: &Value) -> bool {
    match kind.as_str().expect("a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the type `{other}` is not known here"),
    }
}

/// The patterns our schemas have.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern {
        "^/" => text.starts_with('/'),
        "^(/|$)" => text.is_empty() || text.starts_with('/'),
        "^[A-Za-z0-9_-]{1,40}$" => {
            (1..=40).contains(&text.len())
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        }
        "^[1-9][0-9]{2}$" => text.len() == 3 && text.parse::<u16>().is_ok_and(|number| number >= 100),
        "^[0-9a-f]{32}$" => text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')),
        other => panic!("the pattern `{other}` is not known here"),
    }
}

#[test]
fn differences_are_found() {
    use serde_json::json;
    let schema = json!({"type": "object", "required": ["a"], "additionalProperties": false,
        "properties": {"a": {"type": "integer", "minimum": 1}, "b": {"type": ["string", "null"], "pattern": "^/"}}});
    let holds = |value: Value| std::panic::catch_unwind(|| check(&schema, &value, "test")).is_ok();
    assert!(holds(json!({"a": 1, "b": "/x"})) && holds(json!({"a": 1, "b": null})));
    let counts = json!({"type": ["object", "null"], "required": ["200"], "additionalProperties": false,
        "patternProperties": {"^[1-9][0-9]{2}$": {"type": "integer"}}});
    let holds_counts = |value: Value| std::panic::catch_unwind(|| check(&counts, &value, "test")).is_ok();
    assert!(holds_counts(json!({"200": 1, "404": 2})) && holds_counts(Value::Null));
    for wrong in [
        json!({"404": 2}),
        json!({"200": 1, "x": 2}),
        json!({"200": "1"}),
        json!({"200": 1, "012": 1}),
    ] {
        assert!(!holds_counts(wrong.clone()), "{wrong}");
    }
    for wrong in [
        json!({"a": 0}),
        json!({"b": "/"}),
        json!({"a": 1, "b": "x"}),
        json!({"a": 1, "c": 1}),
        json!([]),
    ] {
        assert!(!holds(wrong.clone()), "{wrong}");
    }
}
