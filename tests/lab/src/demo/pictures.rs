//! Pictures of an incident, drawn by Chromium: the message as Slack's window shows it, and the top of its page.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use tokio::process::Command;

use crate::slack::FakeSlack;

/// Where the service posts.
pub(super) const CHANNEL: &str = "#llm-alerts";
/// The time after the cause within which its chart is posted to the thread.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
/// The timeout of one picture.
const DRAWN_WITHIN: Duration = Duration::from_secs(60);

/// The size of a picture in CSS pixels, and the number of real pixels for each.
struct Frame {
    file: &'static str,
    width: u32,
    height: u32,
    scale: f64,
}

/// As wide as a README.
const MESSAGE: Frame = Frame { file: "slack-message.png", width: 850, height: 924, scale: 1.5 };
/// A desktop's first screen.
const PAGE: Frame = Frame { file: "incident.png", width: 1280, height: 1145, scale: 1.0 };

/// Waits until the message is complete, then writes both pictures into a directory.
///
/// # Errors
/// When the chart does not come, or Chromium does not draw.
pub(super) async fn take(slack: &FakeSlack, page: &str, into: &Path) -> anyhow::Result<()> {
    // The chart of the deciding signal is posted last, once a cause is likely.
    slack.wait_for(|state| state.files().iter().any(|file| file.channel.is_some()), SETTLED_WITHIN).await?;
    let ts = slack.messages(CHANNEL).first().map(|message| message.ts.clone()).context("Slack shows nothing")?;
    let html = slack.html(CHANNEL, &ts, &time_of_day()?).context("Slack has lost the message")?;
    let scratch = tempfile::tempdir()?;
    let message = scratch.path().join("message.html");
    std::fs::write(&message, html)?;
    std::fs::create_dir_all(into).with_context(|| format!("cannot make {}", into.display()))?;
    draw(&MESSAGE, &format!("file://{}", message.display()), scratch.path(), into).await?;
    draw(&PAGE, page, scratch.path(), into).await
}

/// Draws an address with Chromium; replaces an existing picture only after that has succeeded.
async fn draw(frame: &Frame, url: &str, scratch: &Path, into: &Path) -> anyhow::Result<()> {
    let drawn = scratch.join(frame.file);
    let mut chromium = Command::new("chromium");
    chromium
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"])
        .arg("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1")
        .arg(format!("--user-data-dir={}", scratch.join("profile").display()))
        .arg(format!("--force-device-scale-factor={}", frame.scale))
        .arg(format!("--window-size={},{}", frame.width, frame.height))
        .arg(format!("--screenshot={}", drawn.display()))
        .arg(url)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(DRAWN_WITHIN, chromium.output()).await.context("chromium draws for too long")?;
    let output = output.context("cannot start chromium: apt-get install chromium")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && drawn.is_file(), "chromium did not draw {url}: {complaint}");
    let picture = into.join(frame.file);
    std::fs::copy(&drawn, &picture).with_context(|| format!("cannot write {}", picture.display()))?;
    Ok(())
}

/// The present in UTC: `02:14`.
#[expect(clippy::disallowed_methods, reason = "Slack's window shows when it was posted, which is now")]
fn time_of_day() -> anyhow::Result<String> {
    let minutes = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 60;
    Ok(format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60))
}
