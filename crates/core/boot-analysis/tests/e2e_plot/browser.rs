//! Measures pictures in a real browser.

use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use testkit::TestDep;

/// Much longer than a start of the browser and a thousand labels take on a busy machine.
const DEADLINE: Duration = Duration::from_mins(2);

/// Left, top, right and bottom, in pixels of the picture.
pub(crate) type Place = [f64; 4];

#[derive(Clone, Deserialize)]
pub(crate) struct Label {
    pub text: String,
    pub classes: String,
    pub place: Place,
    pub size: f64,
    pub fill: String,
}

#[derive(Clone, Deserialize)]
pub(crate) struct Bar {
    pub classes: String,
    pub place: Place,
    pub fill: String,
    pub hover: String,
}

/// The layout of a picture.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Measured {
    /// The parser error, if the picture is not valid XML.
    pub error: Option<String>,
    pub view: [f64; 2],
    /// Natural size.
    pub size: [f64; 2],
    pub texts: Vec<Label>,
    pub bars: Vec<Bar>,
    pub marks: Vec<Place>,
}

/// Measures all pictures with one start of the browser.
pub(crate) fn measure(pictures: &[String]) -> Vec<Measured> {
    let folder = tempfile::tempdir().expect("a folder");
    let (head, script) = include_str!("measure.html").split_once("<body>\n").expect("a page");
    let sources: Vec<String> = pictures
        .iter()
        .map(|svg| {
            assert!(!svg.contains("</script"), "a picture that ends its own source");
            format!("<script type=\"image/svg+xml\">{svg}</script>\n")
        })
        .collect();
    let page = folder.path().join("page.html");
    std::fs::write(&page, format!("{head}<body>\n{}{script}", sources.concat())).expect("a page");
    let mut browser = Command::new(testkit::require(TestDep::Chromium));
    browser
        // Chromium's sandbox does not work as root or in most containers, and the page is trusted.
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        // No network traffic: names do not resolve, and the proxy is a closed port.
        .args([
            "--disable-background-networking",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--proxy-server=127.0.0.1:9",
        ])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .args(["--window-size=1400,1000", "--dump-dom"])
        .arg(format!("file://{}", page.display()));
    let finished = testkit::run(browser, DEADLINE).success();
    let (_, rest) = finished.stdout.split_once("<pre id=\"measured\">").unwrap_or_else(|| panic!("{finished}"));
    let (json, _) = rest.split_once("</pre>").expect("the end of it");
    let measured: Vec<Measured> = serde_json::from_str(json).expect("what the page measured");
    assert_eq!(measured.len(), pictures.len());
    measured
}
