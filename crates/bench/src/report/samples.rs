//! A small report with every difficulty for a renderer, for the tests.

use super::Spread;
use super::model::{Axis, Cell, Document, Plot, Point, Section, Series, Table};
use crate::machine::Machine;

/// Two sections; the second has only plots: bars, and a plot without points.
pub fn document() -> Document {
    let machine = Machine {
        cpu: "A CPU".into(),
        cores: 2,
        kernel: "6.1".into(),
        commit: Some("abc".into()),
        command: "larder-bench eggs --fried".into(),
        notes: Vec::new(),
    };
    let mut first = Section::new("First", ["Nothing is missing, and that is \"good\"."]);
    first.tables.push(Table {
        name: "servers".into(),
        columns: ["server", "rounds", "keys, k/s (median)"].map(String::from).to_vec(),
        rows: vec![
            vec![
                Cell::text("larder"),
                Cell::count(3),
                Cell::spread(Spread { median: 1.5, min: 1.0, max: 2.0 }, 2),
            ],
            vec![Cell::text("a, \"b\""), Cell::Nothing, Cell::number(0.125, 1)],
        ],
    });
    first.plots.push(curves());
    let mut second = Section::new("Second", Vec::<String>::new());
    second.plots.push(bars());
    second.plots.push(Plot { series: Vec::new(), name: "empty".into(), ..curves() });
    Document {
        title: "Eggs & <bacon>".into(),
        machine,
        facts: vec![("seed".into(), "7".into()), ("servers".into(), "\"one\", two".into())],
        sections: vec![first, second],
    }
}

/// Both axes logarithmic, with a value of zero.
pub fn curves() -> Plot {
    let measured = Point { x: 1.0, y: 0.5, range: Some((0.25, 0.75)) };
    Plot {
        name: "curves".into(),
        title: "Curves <of> & something".into(),
        x: Axis::logarithmic("size (bytes)"),
        y: Axis::logarithmic("share <&>"),
        series: vec![Series {
            name: "curve <a> & \"b\"".into(),
            points: vec![measured, Point::exact(10.0, 0.0), Point::exact(1e6, 0.001)],
        }],
    }
}

/// Bars over words.
pub fn bars() -> Plot {
    let series = |name: &str, values: [f64; 2]| Series {
        name: name.into(),
        points: (0..2)
            .map(|place| Point::exact(f64::from(place), values[place as usize]))
            .collect(),
    };
    Plot {
        name: "bars".into(),
        title: "Bars".into(),
        x: Axis::words("fruit", vec!["apples".into(), "pears & plums".into()]),
        y: Axis::linear("weight (kg)"),
        series: vec![series("before", [1.0, 2.0]), series("after", [3.0, 4.0])],
    }
}
