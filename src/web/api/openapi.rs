//! The OpenAPI 3.1 document, from the operations and their types. Its schemas are JSON Schema 2020-12, which is what
//! schemars makes.

use schemars::Schema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::transform::{RecursiveTransform, Transform};
use serde_json::{Map, Value, json};

use super::operations::{ApiMethod, Operation, operations};
use crate::api_problem::{ApiProblem, MEDIA_TYPE};

/// The statuses of errors that every operation has.
const PROBLEMS: [u16; 2] = [401, 403];

/// Returns the document of a service with this public URL; of any service if it is empty.
pub fn openapi(public_url: &str) -> Value {
    let server = if public_url.is_empty() { "/" } else { public_url.trim_end_matches('/') };
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let settings = settings.with_transform(RecursiveTransform(simplify));
    let mut questions = settings.clone().for_deserialize().into_generator();
    let mut answers = settings.for_serialize().into_generator();
    let problem = answers.subschema_for::<ApiProblem>();
    let mut paths = Map::new();
    for operation in operations() {
        let method = match operation.method {
            ApiMethod::Get => "get",
            ApiMethod::Post => "post",
        };
        let described = describe(&operation, &mut questions, &mut answers);
        let path = paths.entry(format!("/api{}", operation.path)).or_insert_with(|| json!({}));
        path[method] = described;
    }
    let mut schemas = answers.take_definitions(true);
    schemas.extend(questions.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "llm-diagnose",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Incidents, health and diagnoses of LLM serving fleets",
            "description": "Read-only towards the cluster. docs/api.md tells how to use it.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": server }],
        "security": [{ "bearer": [] }, { "basic": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer", "description": "`pages.bearer_token_file`, or the webhook's" },
                "basic": { "type": "http", "scheme": "basic", "description": "`pages.username` and `pages.password_file`, or the webhook's" },
            },
            "headers": {
                "ETag": { "description": "For `If-None-Match`: 304 while nothing has changed.", "schema": { "type": "string" } },
                "Link": {
                    "description": "The next page: `<?limit=50&cursor=…>; rel=\"next\"` (RFC 8288); absent on the last one.",
                    "schema": { "type": "string" },
                },
            },
            "responses": {
                "Problem": { "description": "An error (RFC 9457).", "content": { MEDIA_TYPE: { "schema": problem } } },
            },
        },
    })
}

/// Describes an operation.
fn describe(operation: &Operation, questions: &mut SchemaGenerator, answers: &mut SchemaGenerator) -> Value {
    let schema = operation.answer.map_or_else(|| json!({ "type": "object" }), |answer| json!(answer(answers)));
    let mut answer =
        json!({ "description": operation.summary, "content": { "application/json": { "schema": schema } } });
    for header in operation.headers {
        answer["headers"][header] = json!({ "$ref": format!("#/components/headers/{header}") });
    }
    let mut responses = json!({ "200": answer });
    if operation.headers.contains(&"ETag") {
        responses["304"] = json!({ "description": "The version of `If-None-Match` is current." });
    }
    for status in PROBLEMS.iter().chain(operation.problems) {
        responses[status.to_string()] = json!({ "$ref": "#/components/responses/Problem" });
    }
    let mut described = json!({ "operationId": operation.id, "summary": operation.summary, "responses": responses });
    if !operation.description.is_empty() {
        described["description"] = json!(operation.description);
    }
    let mut parameters = path_parameters(operation.path);
    if operation.headers.contains(&"ETag") {
        parameters.push(json!({
            "name": "If-None-Match", "in": "header", "schema": { "type": "string" },
            "description": "The ETag of the version that the client has.",
        }));
    }
    parameters.extend(operation.parameters.map(|schema| query_parameters(&schema(questions))).unwrap_or_default());
    if !parameters.is_empty() {
        described["parameters"] = json!(parameters);
    }
    if let Some(body) = operation.body {
        let content = json!({ "application/json": { "schema": body(questions) } });
        described["requestBody"] = json!({ "required": true, "content": content });
    }
    described
}

/// Describes the parameters in braces of a path.
fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    names.map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })).collect()
}

/// Describes the fields of an object as query parameters; all are optional.
fn query_parameters(object: &Schema) -> Vec<Value> {
    let mut object = object.clone();
    RecursiveTransform(simplify).transform(&mut object);
    let fields = object.get("properties").and_then(Value::as_object);
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        json!({ "name": name, "in": "query", "description": description, "schema": schema })
    };
    fields.into_iter().flatten().map(parameter).collect()
}

/// Writes a schema as generators of clients expect it: the names of an enum as one list, and no default of `null`.
fn simplify(schema: &mut Schema) {
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    let Some(Value::Array(variants)) = schema.get("oneOf") else { return };
    let name = |variant: &Value| Some((variant.get("const")?.as_str()?.to_owned(), variant["description"].clone()));
    let Some(names) = variants.iter().map(name).collect::<Option<Vec<_>>>() else { return };
    let described = names.iter().map(|(name, about)| format!("- `{name}`: {}", about.as_str().unwrap_or_default()));
    let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let description = std::iter::once(format!("{about}\n")).chain(described).collect::<Vec<_>>().join("\n");
    schema.remove("oneOf");
    schema.insert("type".to_owned(), json!("string"));
    schema.insert("enum".to_owned(), names.into_iter().map(|(name, _)| name).collect());
    schema.insert("description".to_owned(), json!(description.trim()));
}
