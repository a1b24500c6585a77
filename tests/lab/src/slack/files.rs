//! The three steps of an upload: announce, send the bytes, share.
//!
//! <https://docs.slack.dev/messaging/working-with-files/#upload>

use serde_json::{Value, json};

use super::methods::{Answer, Refusal, text_of, thread, writable};
use super::state::{Content, File, Message, State};

pub(super) fn announce(state: &mut State, args: &Value) -> Answer {
    let name = text_of(args, "filename");
    // Forms carry numbers as text.
    let length = args["length"].as_u64().or_else(|| text_of(args, "length").parse().ok()).unwrap_or_default();
    if name.is_empty() || length == 0 {
        return Err("invalid_arguments".into());
    }
    if length > state.options.max_file_bytes as u64 {
        return Err("file_upload_size_restricted".into());
    }
    // https://docs.slack.dev/reference/methods/files.getUploadURLExternal#errors
    if text_of(args, "alt_txt").chars().count() > 1_000 {
        return Err("alt_txt_too_large".into());
    }
    let id = state.new_id("F");
    let length = usize::try_from(length).map_err(|_| Refusal::from("invalid_arguments"))?;
    state.files.push(File {
        id: id.clone(),
        name: name.into(),
        length,
        alt: text_of(args, "alt_txt").into(),
        bytes: None,
        channel: None,
        is_complete: false,
    });
    Ok(json!({ "upload_url": format!("{}/upload/{id}", state.base_url), "file_id": id }))
}

/// Takes the bytes; none if no such file was announced, or with another length.
pub(super) fn receive(state: &mut State, id: &str, bytes: &[u8]) -> Option<usize> {
    let file = state.files.iter_mut().find(|file| file.id == id && file.length == bytes.len())?;
    file.bytes = Some(bytes.to_vec());
    Some(bytes.len())
}

pub(super) fn complete(state: &mut State, args: &Value) -> Answer {
    let named = args["files"].as_array().filter(|files| !files.is_empty()).ok_or("invalid_arguments")?;
    let ids: Vec<_> = named.iter().map(|file| text_of(file, "id").to_owned()).collect();
    let is_sent = |id: &String| state.files.iter().any(|file| file.id == *id && file.bytes.is_some());
    if !ids.iter().all(is_sent) {
        return Err("file_not_found".into());
    }
    let shared: Vec<_> = named.iter().map(|file| json!({ "id": file["id"], "title": file["title"] })).collect();
    if args["channel_id"].is_string() {
        let channel = writable(state, args, "channel_id")?;
        let thread_ts = thread(state, &channel, args)?;
        let titles = named.iter().map(|file| title(state, file)).collect();
        for file in state.files.iter_mut().filter(|file| ids.contains(&file.id)) {
            file.channel = Some(channel.clone());
        }
        let content = Content { text: text_of(args, "initial_comment").into(), ..Content::default() };
        let ts = state.new_ts();
        let shared = state.files.iter().filter(|file| ids.contains(&file.id));
        let shared = shared.map(|file| (file.id.clone(), file.name.clone())).collect();
        state.messages.push(Message { files: titles, shared, ..Message::new(channel, ts, thread_ts, content) });
    }
    // What is refused above has no effect.
    for file in state.files.iter_mut().filter(|file| ids.contains(&file.id)) {
        file.is_complete = true;
    }
    Ok(json!({ "files": shared }))
}

/// `files.delete`: the message that shares the file goes with it.
pub(super) fn delete(state: &mut State, args: &Value) -> Answer {
    let id = text_of(args, "file").to_owned();
    let before = state.files.len();
    state.files.retain(|file| file.id != id);
    if state.files.len() == before {
        return Err("file_not_found".into());
    }
    for message in state.messages.iter_mut().filter(|message| message.shared.iter().any(|(shared, _)| *shared == id)) {
        message.is_deleted = true;
    }
    Ok(json!({}))
}

fn title(state: &State, named: &Value) -> String {
    match named["title"].as_str() {
        Some(title) => title.into(),
        None => {
            state.files.iter().find(|file| named["id"] == *file.id).map(|file| file.name.clone()).unwrap_or_default()
        }
    }
}
