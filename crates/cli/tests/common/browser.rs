//! A headless Chromium, driven over WebDriver.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

use base64::{prelude::BASE64_STANDARD, Engine as _};
use redis_mq_testkit::wait_until;
use serde_json::{json, Value as Json};
use tempfile::TempDir;

/// How long the browser has for anything: on a busy machine it starts slowly.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// By this name elements are known in WebDriver.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// It ends when this value is dropped.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: TempDir,
}

/// Something on a page.
pub struct Element(String);

impl Browser {
    /// A browser with an empty profile, in which `evil.example` leads to this machine. None where
    /// it is not installed, unless `MQ_BROWSER` is `required`.
    pub fn start() -> Option<Self> {
        let driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut driver = match driver {
            Ok(driver) => driver,
            Err(error) => {
                let required = std::env::var("MQ_BROWSER").is_ok_and(|value| value == "required");
                assert!(
                    !required,
                    "no chromedriver, the driver of Chromium: {error}"
                );
                eprintln!("left out: no chromedriver, the driver of Chromium: {error}");
                return None;
            }
        };
        let stdout = driver.stdout.take().unwrap();
        let port = BufReader::new(stdout).lines().find_map(|line| {
            let line = line.ok()?;
            let (_, port) = line.split_once("successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        let profile = tempfile::tempdir().unwrap();
        let folder = format!("--user-data-dir={}", profile.path().display());
        let mut browser = Self {
            driver,
            port: port.expect("the driver tells its port"),
            session: String::new(),
            _profile: profile,
        };
        let args = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--host-resolver-rules=MAP evil.example 127.0.0.1",
            "--window-size=1180,720",
            &folder,
        ];
        let options = json!({"args": args});
        let wanted = json!({"alwaysMatch": {"goog:chromeOptions": options}});
        let session = browser.call("POST", "/session", &json!({"capabilities": wanted}));
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        Some(browser)
    }

    /// Goes to an address.
    pub fn open(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// Where it is.
    pub fn url(&self) -> String {
        self.get("/url").as_str().unwrap().to_owned()
    }

    /// What the page says.
    pub fn text(&self) -> String {
        let text = self.run("return document.body ? document.body.innerText : ''");
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page says that.
    #[track_caller]
    pub fn wait_for(&self, part: &str) {
        let mut last = String::new();
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until(PATIENCE, || {
                last = self.text();
                last.contains(part)
            });
        }));
        assert!(found.is_ok(), "no {part:?} in: {last}");
    }

    /// The value of a script, which may use `return`.
    pub fn run(&self, script: &str) -> Json {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// The first element of that selector.
    #[track_caller]
    pub fn find(&self, selector: &str) -> Element {
        let mut found = Json::Null;
        wait_until(PATIENCE, || {
            let wanted = json!({"using": "css selector", "value": selector});
            found = self.post("/elements", &wanted)[0].clone();
            !found.is_null()
        });
        Element(found[ELEMENT].as_str().unwrap().to_owned())
    }

    /// Presses the button with that label.
    #[track_caller]
    pub fn press(&self, label: &str) {
        let mut found = Json::Null;
        wait_until(PATIENCE, || {
            let path = format!("//button[starts-with(normalize-space(), '{label}')]");
            let wanted = json!({"using": "xpath", "value": path});
            found = self.post("/elements", &wanted)[0].clone();
            !found.is_null()
        });
        let element = found[ELEMENT].as_str().unwrap();
        self.post(&format!("/element/{element}/click"), &json!({}));
    }

    /// Follows the link with that text.
    #[track_caller]
    pub fn follow(&self, text: &str) {
        let wanted = json!({"using": "partial link text", "value": text});
        let found = self.post("/element", &wanted);
        let element = found[ELEMENT].as_str().unwrap();
        self.post(&format!("/element/{element}/click"), &json!({}));
    }

    /// Clicks on it.
    pub fn click(&self, element: &Element) {
        self.post(&format!("/element/{}/click", element.0), &json!({}));
    }

    /// Writes into it.
    pub fn write(&self, element: &Element, text: &str) {
        self.post(
            &format!("/element/{}/value", element.0),
            &json!({ "text": text }),
        );
    }

    /// Writes to whatever has the focus.
    pub fn write_on(&self, text: &str) {
        let active = self.get("/element/active");
        let element = Element(active[ELEMENT].as_str().unwrap().to_owned());
        self.write(&element, text);
    }

    /// A command of Chromium's own.
    pub fn own(&self, command: &str, params: &Json) {
        self.post(
            "/goog/cdp/execute",
            &json!({"cmd": command, "params": params}),
        );
    }

    /// A picture of the window, PNG.
    pub fn picture(&self) -> Vec<u8> {
        let picture = self.get("/screenshot");
        BASE64_STANDARD.decode(picture.as_str().unwrap()).unwrap()
    }

    fn get(&self, path: &str) -> Json {
        self.call(
            "GET",
            &format!("/session/{}{path}", self.session),
            &Json::Null,
        )
    }

    fn post(&self, path: &str, body: &Json) -> Json {
        self.call("POST", &format!("/session/{}{path}", self.session), body)
    }

    #[track_caller]
    fn call(&self, method: &str, path: &str, body: &Json) -> Json {
        let body = match body {
            Json::Null => String::new(),
            body => body.to_string(),
        };
        let (host, length) = (format!("127.0.0.1:{}", self.port), body.len());
        let mut stream = TcpStream::connect(&host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim().split_once(':') else {
                match line.trim() {
                    "" => break,
                    _ => continue,
                }
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).unwrap();
        let mut answer: Json = serde_json::from_slice(&answer).unwrap();
        let value = answer["value"].take();
        assert!(
            value.get("error").is_none(),
            "{method} {path} {body}: {value}"
        );
        value
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.call("DELETE", &format!("/session/{}", self.session), &Json::Null);
        }
        // Without its driver the browser ends too.
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
