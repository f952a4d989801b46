//! From requests to answers.

use std::sync::Arc;

use axum::{
    body::{to_bytes, Body},
    extract::{Request, State},
    http::{
        header::{self, HeaderValue},
        Method, StatusCode,
    },
    response::{IntoResponse as _, Response},
};

use super::{
    access::{guard, Access},
    act, names,
    pages::{self, Page},
    params::Params,
};
use crate::{
    failure::{Exit, Failure},
    sample::{Board, Jobs, Link},
};

/// The longest form that is read; one page of ids fits several times.
const FORM: usize = 1 << 20;
const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/live.js");
const ICON: &str = include_str!("assets/icon.svg");

/// What all answers are made from.
pub struct Site {
    /// Who may do what.
    pub access: Access,
    /// The server.
    pub link: Arc<Link>,
    /// What is known of the queues.
    pub board: Arc<Board>,
    /// What goes on for longer.
    pub jobs: Jobs,
}

/// What a request leads to.
pub enum Answer {
    /// A page.
    Page(Page),
    /// A part of a page, to be put into it.
    Part(maud::Markup),
    /// Bytes to be saved.
    File(Vec<u8>),
    /// Another page, by its address.
    Elsewhere(String),
}

impl Site {
    /// For these options.
    pub fn new(access: Access, link: Arc<Link>, board: Arc<Board>) -> Self {
        Self {
            access,
            link,
            board,
            jobs: Jobs::default(),
        }
    }

    /// The address of a page.
    pub fn href(&self, path: &str, params: &[(&str, &str)]) -> String {
        let mut address = format!("{}{path}", self.access.base());
        if !params.is_empty() {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.extend_pairs(params.iter().filter(|(_, value)| !value.is_empty()));
            address.push('?');
            address += &query.finish();
        }
        address
    }

    /// The address of a page about a queue.
    pub fn queue_href(&self, path: &str, queue: &[u8], params: &[(&str, &str)]) -> String {
        let name = names::spell(queue);
        let mut all = vec![("name", name.as_str())];
        all.extend_from_slice(params);
        self.href(path, &all)
    }

    async fn answer(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        if let Err(refusal) = self.access.check(&parts) {
            let line = format!("{}\n", refusal.line);
            return (refusal.status, line).into_response();
        }
        let Some(path) = parts.uri.path().strip_prefix(self.access.base()) else {
            return (StatusCode::NOT_FOUND, "no such page\n").into_response();
        };
        let asset = |kind: &'static str, text: &'static str| {
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        };
        match path {
            "/style.css" => return asset("text/css; charset=utf-8", STYLE),
            "/live.js" => return asset("text/javascript; charset=utf-8", SCRIPT),
            "/icon.svg" => return asset("image/svg+xml", ICON),
            _ => {}
        }
        let answer = match (&parts.method, path) {
            (&Method::POST, "/act") => match to_bytes(body, FORM).await {
                Ok(form) => act::act(self, &Params::read(&form)).await,
                Err(_) => Err(Failure::usage("the form is too long or was cut off")),
            },
            (&Method::POST, _) => Err(Failure::no("no such page")),
            _ => {
                let params = Params::read(parts.uri.query().unwrap_or_default().as_bytes());
                self.show(path, &params).await
            }
        };
        match answer {
            Ok(Answer::Page(page)) => html(StatusCode::OK, &pages::whole(self, page)),
            Ok(Answer::Part(part)) => html(StatusCode::OK, &part),
            Ok(Answer::File(bytes)) => {
                let headers = [
                    (header::CONTENT_TYPE, "application/octet-stream"),
                    (
                        header::CONTENT_DISPOSITION,
                        "attachment; filename=\"payload\"",
                    ),
                ];
                (headers, bytes).into_response()
            }
            Ok(Answer::Elsewhere(address)) => match HeaderValue::from_str(&address) {
                Ok(address) => {
                    (StatusCode::SEE_OTHER, [(header::LOCATION, address)]).into_response()
                }
                Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            },
            Err(failure) => {
                let page = pages::failed(&failure);
                html(status(&failure), &pages::whole(self, page))
            }
        }
    }

    async fn show(&self, path: &str, params: &Params) -> Result<Answer, Failure> {
        Ok(match path {
            "" => Answer::Elsewhere(self.href("/", &[])),
            "/" => Answer::Page(pages::queues::page(self, params)),
            "/live/queues" => Answer::Part(pages::queues::part(self, params)),
            "/queue" => Answer::Page(pages::queue::page(self, params).await?),
            "/live/queue" => Answer::Part(pages::queue::part(self, params)?),
            "/search" => pages::search::page(self, params).await?,
            "/message" => Answer::Page(pages::message::page(self, params).await?),
            "/payload" => Answer::File(pages::message::payload(self, params).await?),
            "/groups" => Answer::Page(pages::groups::page(self, params).await?),
            "/limits" => Answer::Page(pages::limits::page(self, params).await?),
            "/schedules" => Answer::Page(pages::schedules::page(self, params).await?),
            _ => return Err(Failure::no("no such page")),
        })
    }
}

/// Answers one request.
pub async fn answer(State(site): State<Arc<Site>>, request: Request) -> Response {
    let mut response = site.answer(request).await;
    guard(response.status(), response.headers_mut());
    response
}

fn html(status: StatusCode, text: &maud::Markup) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (status, kind, Body::from(text.0.clone())).into_response()
}

fn status(failure: &Failure) -> StatusCode {
    match failure.exit() {
        Exit::NO => StatusCode::NOT_FOUND,
        Exit::USAGE => StatusCode::BAD_REQUEST,
        Exit::UNREACHED => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::CONFLICT,
    }
}
