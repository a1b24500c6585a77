//! Views: modals, and the app's Home.

use serde_json::{Value, json};

use super::{Slack, SlackError};

impl Slack {
    /// Calls `views.open`, within 3 seconds of the press that gave the trigger.
    ///
    /// # Errors
    /// See [`Self::post`]; `expired_trigger_id` after these 3 seconds.
    pub async fn open_view(&self, trigger: &str, view: &Value) -> Result<(), SlackError> {
        self.call::<Value>("views.open", &json!({ "trigger_id": trigger, "view": view })).await.map(drop)
    }

    /// Calls `views.publish`: shows a view in a user's Home tab of the app.
    pub async fn publish_home(&self, user: &str, view: &Value) -> Result<(), SlackError> {
        self.call::<Value>("views.publish", &json!({ "user_id": user, "view": view })).await.map(drop)
    }
}
