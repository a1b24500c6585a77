//! The transport of slack-morphism over reqwest: timeouts, proxies, and one connection pool.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use slack_morphism::errors::{
    SlackClientApiError, SlackClientError, SlackClientHttpError, SlackClientHttpProtocolError,
    SlackClientProtocolError, SlackRateLimitError,
};
use slack_morphism::multipart_form::FileMultipartData;
use slack_morphism::{
    ClientResult, SlackClientApiCallContext, SlackClientHttpConnector, SlackClientId, SlackClientSecret,
    SlackEnvelopeMessage,
};
use url::Url;

use super::{ANSWER_BYTES, SlackError};
use http_client::{ResponseBodyError, read_body};

pub(super) struct ReqwestConnector {
    pub(super) http: reqwest::Client,
    api_url: String,
}

impl ReqwestConnector {
    pub(super) fn new(api_url: &str, timeout: Duration) -> Result<Self, SlackError> {
        let http = http_client::builder(Duration::from_secs(5))
            .timeout(timeout)
            .build()
            .map_err(|e| SlackError::Unreachable(e.to_string()))?;
        Ok(Self { http, api_url: api_url.trim_end_matches('/').to_owned() })
    }

    fn send<'a, R>(
        &'a self,
        request: RequestBuilder,
        context: &SlackClientApiCallContext<'_>,
    ) -> BoxFuture<'a, ClientResult<R>>
    where
        R: DeserializeOwned + Send + 'a,
    {
        let request = match context.token {
            Some(token) => request.bearer_auth(&token.token_value.0),
            None => request,
        };
        async move { read(request.send().await.map_err(protocol)?).await }.boxed()
    }
}

fn protocol(error: reqwest::Error) -> SlackClientError {
    SlackClientError::HttpProtocolError(SlackClientHttpProtocolError::new().with_cause(Box::new(error)))
}

/// Returns the wait that Slack asks for.
pub(super) fn retry_after(response: &Response) -> Option<Duration> {
    let header = response.headers().get(reqwest::header::RETRY_AFTER)?;
    header.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

async fn read<R: DeserializeOwned>(response: Response) -> ClientResult<R> {
    let status = response.status();
    let retry_after = retry_after(&response);
    let body = match read_body(response, ANSWER_BYTES).await {
        Ok(body) => String::from_utf8_lossy(&body).into_owned(),
        Err(ResponseBodyError::Broken(error)) => return Err(protocol(error)),
        Err(error @ ResponseBodyError::TooLarge(_)) => {
            let error = SlackClientHttpProtocolError::new().with_cause(Box::new(error));
            return Err(SlackClientError::HttpProtocolError(error));
        }
    };
    if status == StatusCode::TOO_MANY_REQUESTS {
        return Err(SlackClientError::RateLimitError(
            SlackRateLimitError::new().opt_retry_after(retry_after).with_http_response_body(body),
        ));
    }
    if !status.is_success() {
        return Err(SlackClientError::HttpError(SlackClientHttpError::new(status).with_http_response_body(body)));
    }
    let malformed =
        |error| SlackClientError::ProtocolError(SlackClientProtocolError::new(error).with_json_body(body.clone()));
    let envelope: SlackEnvelopeMessage = serde_json::from_str(&body).map_err(malformed)?;
    match envelope.error {
        None => serde_json::from_str(&body).map_err(malformed),
        Some(code) => Err(SlackClientError::ApiError(SlackClientApiError::new(code).with_http_response_body(body))),
    }
}

impl SlackClientHttpConnector for ReqwestConnector {
    fn http_get_uri<'a, RS>(
        &'a self,
        uri: Url,
        context: SlackClientApiCallContext<'a>,
    ) -> BoxFuture<'a, ClientResult<RS>>
    where
        RS: for<'de> serde::de::Deserialize<'de> + Send + 'a,
    {
        self.send(self.http.get(uri), &context)
    }

    fn http_get_with_client_secret<'a, RS>(
        &'a self,
        uri: Url,
        id: &'a SlackClientId,
        secret: &'a SlackClientSecret,
    ) -> BoxFuture<'a, ClientResult<RS>>
    where
        RS: for<'de> serde::de::Deserialize<'de> + Send + 'a,
    {
        let request = self.http.get(uri).basic_auth(&id.0, Some(&secret.0));
        async move { read(request.send().await.map_err(protocol)?).await }.boxed()
    }

    fn http_post_uri<'a, RQ, RS>(
        &'a self,
        uri: Url,
        body: &'a RQ,
        context: SlackClientApiCallContext<'a>,
    ) -> BoxFuture<'a, ClientResult<RS>>
    where
        RQ: Serialize + Send + Sync,
        RS: for<'de> serde::de::Deserialize<'de> + Send + 'a,
    {
        self.send(self.http.post(uri).json(body), &context)
    }

    fn http_post_uri_multipart_form<'a, 'p, RS, PT, TS>(
        &'a self,
        uri: Url,
        file: Option<FileMultipartData<'p>>,
        params: &'p PT,
        context: SlackClientApiCallContext<'a>,
    ) -> BoxFuture<'a, ClientResult<RS>>
    where
        RS: for<'de> serde::de::Deserialize<'de> + Send + 'a,
        PT: IntoIterator<Item = (&'p str, Option<TS>)> + Clone,
        TS: AsRef<str> + 'p + Send,
    {
        // Files go through files.getUploadURLExternal, which takes plain bytes.
        if file.is_some() {
            return std::future::ready(Err(protocol_text("multipart file uploads are not used"))).boxed();
        }
        let fields: Vec<(String, String)> = params
            .clone()
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.as_ref().to_owned())))
            .collect();
        self.send(self.http.post(uri).form(&fields), &context)
    }

    fn http_post_uri_binary<'a, 'p, RS>(
        &'a self,
        uri: Url,
        content_type: String,
        data: &'a [u8],
        _context: SlackClientApiCallContext<'a>,
    ) -> BoxFuture<'a, ClientResult<RS>>
    where
        RS: for<'de> serde::de::Deserialize<'de> + Send + 'a,
    {
        // The address is signed; it must not get the bot token.
        let request = self.http.post(uri).header(reqwest::header::CONTENT_TYPE, content_type).body(data.to_vec());
        async move {
            let response = request.send().await.map_err(protocol)?;
            match response.status().is_success() {
                true => serde_json::from_str("{}")
                    .map_err(|e| SlackClientError::ProtocolError(SlackClientProtocolError::new(e))),
                false => Err(SlackClientError::HttpError(SlackClientHttpError::new(response.status()))),
            }
        }
        .boxed()
    }

    fn create_method_uri_path(&self, method: &str) -> ClientResult<Url> {
        Ok(format!("{}/{method}", self.api_url).parse()?)
    }
}

fn protocol_text(text: &str) -> SlackClientError {
    SlackClientError::HttpProtocolError(SlackClientHttpProtocolError::new().with_cause(text.into()))
}
