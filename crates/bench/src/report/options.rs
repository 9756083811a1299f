//! What every command can do with its report beside printing it.

use std::fs;
use std::path::PathBuf;

use clap::Args;

use super::model::Document;
use super::{csv, html};
use crate::failure::{Failure, Outcome};

/// Files to write the report to.
#[derive(Debug, Clone, Default, Args)]
pub struct ReportOptions {
    /// Write the report as JSON to this file.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write each table as CSV into this folder, or the only one to this file if it ends in .csv.
    #[arg(long, value_name = "DIR")]
    pub csv: Option<PathBuf>,
    /// Write the report as a page of HTML, with plots, that needs nothing beside itself.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl ReportOptions {
    /// Writes the files that were asked for.
    pub fn write(&self, document: &Document) -> Outcome<()> {
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(document);
            let text = text.expect("reports hold nothing but data") + "\n";
            fs::write(path, text).map_err(Failure::io(format!("writing {}", path.display())))?;
        }
        if let Some(path) = &self.csv {
            csv::write(document, path)?;
        }
        if let Some(path) = &self.html {
            let page = html::render(document);
            fs::write(path, page).map_err(Failure::io(format!("writing {}", path.display())))?;
        }
        Ok(())
    }
}
