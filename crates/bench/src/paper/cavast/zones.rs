//! The places for hot items.
//!
//! | placement | hot places | moves |
//! | --- | --- | --- |
//! | as stored | none | nothing |
//! | by rank | none: items are in order of popularity, which no server knows | nothing |
//! | columns | a number of columns of every slab, by offsets | items of one slab |
//! | coloured | as many small pages of every slab, by their frames | items of one slab |
//! | rows | places that map to the first sets of the cache, in every slab | items of one slab |
//! | area | the first places of each shape in the whole store | items of any slabs of a shape |
//!
//! With columns and rows each slab has a share of hot places, and their total is that share of the
//! memory. The area can have any size.

use std::collections::HashMap;

use policy::colours::{Choice, Colours};
use policy::columns::Columns;
use policy::geometry::CacheGeometry;
use policy::pages::{PageSet, SLAB_PAGES_MAX};

use super::cells::{Cells, Place, SLAB_BYTES, Shape};
use super::memory::Pages;

/// Steps of the hand for one item that wants to enter the area.
const LOOKS_MAX: usize = 8;

/// The placement of items.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Placement {
    AsStored,
    ByRank,
    /// This many columns of each slab are hot.
    Columns(usize),
    /// This many columns of each slab, of small pages whose frames are known.
    Coloured(usize),
    /// This share of the sets is hot.
    Rows(f64),
    /// This share of the places is hot.
    Area {
        share: f64,
    },
}

impl Placement {
    /// Returns whether items move by their temperature.
    pub fn is_by_heat(self) -> bool {
        !matches!(self, Placement::AsStored | Placement::ByRank)
    }
}

/// The hot places of a store.
pub struct Zones {
    kind: ZoneKind,
    hot_cells: u64,
}

enum ZoneKind {
    None,
    /// The hot pages of each slab.
    Pages(Vec<PageSet>),
    Rows {
        span_bytes: u64,
        hot_bytes: u64,
    },
    Area {
        hot_of_slab: Vec<u32>,
        hands: HashMap<Shape, Hand>,
    },
}

/// Where the next victim of a shape is looked for: its slabs with hot places.
struct Hand {
    slabs: Vec<u32>,
    slab: usize,
    cell: u32,
}

impl Zones {
    /// Returns the zones of a store as it was filled.
    pub fn new(placement: Placement, cells: &Cells, geometry: &CacheGeometry) -> Zones {
        let span = geometry.span_bytes();
        let all: u64 = cells.slabs.iter().map(|slab| u64::from(slab.shape.cells())).sum();
        let share = |share: f64| (all as f64 * share) as u64;
        match placement {
            Placement::AsStored | Placement::ByRank => Zones { kind: ZoneKind::None, hot_cells: 0 },
            Placement::Columns(hot) | Placement::Coloured(hot) => {
                let columns = Columns::new(SLAB_BYTES as usize, geometry, hot);
                let hot_cells = share(hot as f64 / columns.count() as f64);
                let slabs = 0..cells.slabs.len() as u32;
                let by_offsets = slabs.map(|slab| columns.hot_pages(slab, SLAB_BYTES as usize));
                let pages: Vec<PageSet> = match placement {
                    Placement::Coloured(_) => coloured(by_offsets, geometry),
                    _ => by_offsets.collect(),
                };
                Zones { kind: ZoneKind::Pages(pages), hot_cells }
            }
            Placement::Rows(hot) => {
                let hot_bytes = (span as f64 * hot) as u64;
                let kind = ZoneKind::Rows { span_bytes: span as u64, hot_bytes };
                Zones { kind, hot_cells: share(hot) }
            }
            Placement::Area { share } => Zones::area(share, cells),
        }
    }

    fn area(share: f64, cells: &Cells) -> Zones {
        let mut places: HashMap<Shape, u32> = HashMap::new();
        for slab in &cells.slabs {
            *places.entry(slab.shape).or_default() += slab.shape.cells();
        }
        // The remaining number of each shape's hot places.
        places.values_mut().for_each(|places| *places = (f64::from(*places) * share).ceil() as u32);
        let hot_cells = places.values().map(|hot| u64::from(*hot)).sum();
        let mut hands: HashMap<Shape, Hand> = HashMap::new();
        let mut hot_of_slab = Vec::new();
        for (number, slab) in (0..).zip(&cells.slabs) {
            let left = places.get_mut(&slab.shape).expect("every shape was counted");
            let hot = slab.shape.cells().min(*left);
            *left -= hot;
            hot_of_slab.push(hot);
            if hot > 0 {
                let empty = || Hand { slabs: Vec::new(), slab: 0, cell: 0 };
                hands.entry(slab.shape).or_insert_with(empty).slabs.push(number);
            }
        }
        Zones { kind: ZoneKind::Area { hot_of_slab, hands }, hot_cells }
    }

    /// Returns whether a place is for hot items.
    pub fn is_hot(&self, cells: &Cells, place: Place) -> bool {
        match &self.kind {
            ZoneKind::None => false,
            ZoneKind::Pages(pages) => {
                pages[place.slab as usize].has_byte(cells.column_offset(place) as usize)
            }
            ZoneKind::Rows { span_bytes, hot_bytes } => {
                cells.value_offset(place) % span_bytes < *hot_bytes
            }
            ZoneKind::Area { hot_of_slab, .. } => place.cell < hot_of_slab[place.slab as usize],
        }
    }

    /// Returns the number of hot pages of each colour, where all pages of the memory are of one
    /// kind.
    pub fn pools(&self, geometry: &CacheGeometry, kind: Pages) -> Vec<u32> {
        let colours = Colours::new(geometry);
        let mut pools = vec![0; colours.count()];
        if let ZoneKind::Pages(pages) = &self.kind {
            for (slab, pages) in (0..).zip(pages) {
                for page in pages.iter() {
                    pools[colours.of(kind.frame_of(page_of(slab, page)))] += 1;
                }
            }
        }
        pools
    }

    /// Returns the number of hot places.
    pub fn hot_cells(&self) -> u64 {
        self.hot_cells
    }

    /// Returns the next places of the area under the hand of a shape.
    pub fn look(&mut self, shape: Shape) -> [Place; LOOKS_MAX] {
        let ZoneKind::Area { hot_of_slab, hands } = &mut self.kind else {
            unreachable!("only the area is entered one by one");
        };
        let hand = hands.get_mut(&shape).expect("every shape has a hot place");
        std::array::from_fn(|_| {
            let slab = hand.slabs[hand.slab];
            let place = Place { slab, cell: hand.cell };
            hand.cell += 1;
            if hand.cell >= hot_of_slab[slab as usize] {
                hand.cell = 0;
                hand.slab = (hand.slab + 1) % hand.slabs.len();
            }
            place
        })
    }
}

/// Returns the hot pages of all slabs, if they are of small pages whose frames are known.
fn coloured(by_offsets: impl Iterator<Item = PageSet>, geometry: &CacheGeometry) -> Vec<PageSet> {
    let colours = Colours::new(geometry);
    let slab = |(slab, column): (u32, PageSet)| {
        let frames =
            (0..SLAB_PAGES_MAX).map(|page| Some(Pages::Small.frame_of(page_of(slab, page))));
        match colours.choose(slab, &column, frames) {
            Choice::Coloured { pages, .. } => pages,
            Choice::InOrder | Choice::Unknown => column,
        }
    };
    (0..).zip(by_offsets).map(slab).collect()
}

/// Returns the number of a page of a slab among all small pages.
fn page_of(slab: u32, page: usize) -> u64 {
    u64::from(slab) * SLAB_PAGES_MAX as u64 + page as u64
}
