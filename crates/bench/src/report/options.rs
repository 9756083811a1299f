//! The options for a report, common to all commands.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::fs::Access;

use super::model::Document;
use super::{csv, html};
use crate::failure::{Failure, Outcome};

/// Files to write the report to.
#[derive(Debug, Clone, Default, Args)]
pub struct ReportOptions {
    /// Write the report as JSON to this file.
    #[arg(long, value_name = "FILE", value_parser = file)]
    pub json: Option<PathBuf>,
    /// Write each table as CSV into this folder, or the only one to this file if it ends in .csv;
    /// several go beside it, with their names appended to its own.
    #[arg(long, value_name = "DIR", value_parser = folder)]
    pub csv: Option<PathBuf>,
    /// Write the report as a self-contained page of HTML, with plots.
    #[arg(long, value_name = "FILE", value_parser = file)]
    pub html: Option<PathBuf>,
}

/// Parses a file that can be written: an error is reported before hours of measuring, not after.
fn file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_dir() {
        return Err(format!("{text} is a folder"));
    }
    if path.exists() {
        return writable(&path);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(format!("there is no folder {}", folder.display()));
    }
    writable(folder)?;
    Ok(path)
}

/// Parses a folder that exists or can be made, or a file if its name says so.
fn folder(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if csv::is_file(&path) {
        return file(text);
    }
    let there = path.ancestors().find(|it| it.exists()).unwrap_or(Path::new("."));
    if !there.is_dir() {
        return Err(format!("{} is no folder", there.display()));
    }
    writable(there)?;
    Ok(path)
}

fn writable(path: &Path) -> Result<PathBuf, String> {
    match rustix::fs::access(path, Access::WRITE_OK) {
        Ok(()) => Ok(path.to_owned()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

impl ReportOptions {
    /// Writes all requested files, even if one of them fails.
    pub fn write(&self, document: &Document) -> Outcome<()> {
        let write = |path: &Path, text: String| {
            fs::write(path, text).map_err(Failure::io(format!("writing {}", path.display())))
        };
        let json = self.json.as_ref().map(|path| {
            let text = serde_json::to_string_pretty(document);
            write(path, text.expect("reports hold nothing but data") + "\n")
        });
        let csv = self.csv.as_ref().map(|path| csv::write(document, path));
        let html = self.html.as_ref().map(|path| write(path, html::render(document)));
        [json, csv, html].into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{ReportOptions, file, folder};
    use crate::report::samples;
    use crate::trace::testing::Folder;

    /// Regression: an unwritable path was only noticed after the measurement.
    #[test]
    fn an_unwritable_path_is_refused_at_once() {
        let there = Folder::new();
        let text = |name: &str| there.path(name).display().to_string();
        assert!(file(&text("report.json")).is_ok() && file(&text("")).is_err());
        assert!(file(&text("missing/report.json")).is_err());
        assert!(folder(&text("made/when/needed")).is_ok());
        assert!(folder(&text("missing/all.csv")).is_err());
        there.write("taken", b"");
        assert!(folder(&text("taken")).is_err() && folder(&text("taken/below")).is_err());
    }

    #[test]
    fn a_file_that_fails_keeps_no_other_from_being_written() {
        let there = Folder::new();
        let options = ReportOptions {
            json: Some(there.path("missing/report.json")),
            csv: None,
            html: Some(there.path("report.html")),
        };
        assert!(options.write(&samples::document()).is_err());
        assert!(there.path("report.html").is_file());
    }
}
