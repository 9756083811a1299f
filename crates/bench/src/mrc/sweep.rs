//! Every policy at every size: independent simulations, as many at a time as there are threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use indicatif::ProgressBar;

use super::document::Curve;
use crate::policies::belady::next_uses;
use crate::policies::bound::Bound;
use crate::policies::kind::{Kind, Setting};
use crate::policies::simulate::{Simulation, Tally};
use crate::policies::weight::Scale;
use crate::report;
use crate::trace::Operation;
use crate::trace::copies::Copies;

/// The unit of a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Objects.
    Objects,
    /// Bytes of memory.
    Memory,
}

impl Measure {
    /// Returns the scale for items of this policy.
    pub fn scale(self, kind: Kind) -> Scale {
        match self {
            Measure::Objects => Scale::Objects,
            Measure::Memory => kind.memory_scale(),
        }
    }
}

/// What to simulate.
pub struct Sweep<'a> {
    /// The requests.
    pub trace: &'a Copies,
    /// The policies.
    pub kinds: &'a [Kind],
    /// The unit of sizes.
    pub measure: Measure,
    /// The sizes, rising.
    pub sizes: &'a [u64],
    /// Simulations that run at a time.
    pub threads: usize,
}

impl Sweep<'_> {
    /// Runs everything: a curve for each policy, and the bound on all policies if Belady is among
    /// them.
    pub fn run(&self) -> Vec<Curve> {
        let next_uses = next_uses(self.trace.iter(), self.trace.objects());
        let jobs = self.kinds.len() * self.sizes.len();
        let progress = report::progress((jobs * self.trace.len()) as u64);
        let results = Mutex::new(vec![Tally::default(); jobs]);
        let next_job = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..self.threads.min(jobs) {
                scope.spawn(|| {
                    while let job = next_job.fetch_add(1, Ordering::Relaxed)
                        && job < jobs
                    {
                        let tally = self.simulate(job, &next_uses, &progress);
                        results.lock().unwrap_or_else(PoisonError::into_inner)[job] = tally;
                    }
                });
            }
        });
        progress.finish_and_clear();
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let rows = self.kinds.iter().zip(results.chunks(self.sizes.len()));
        let mut curves: Vec<Curve> =
            rows.map(|(kind, tallies)| Curve::of(*kind, self.measure, tallies.to_vec())).collect();
        if self.kinds.contains(&Kind::Belady) {
            let tallies = bound(self.trace, &next_uses, self.measure, self.sizes);
            curves.push(Curve::bound(tallies));
        }
        curves
    }

    fn simulate(&self, job: usize, next_uses: &Arc<[u32]>, progress: &ProgressBar) -> Tally {
        let (kind, size) = (self.kinds[job / self.sizes.len()], self.sizes[job % self.sizes.len()]);
        let scale = self.measure.scale(kind);
        let mut simulation = simulation(kind, scale, size, self.trace, next_uses);
        progress.set_message(kind.to_string());
        simulation.run(self.trace.iter(), |requests| progress.inc(requests))
    }
}

/// Returns the bound on all policies at these sizes. Its costs are not known.
pub fn bound(trace: &Copies, next_uses: &[u32], measure: Measure, sizes: &[u64]) -> Vec<Tally> {
    let scale = measure.scale(Kind::Belady);
    let bound = Bound::new(trace.iter(), next_uses, |request| scale.weigh(request));
    let gets = trace.iter().filter(|request| request.operation == Operation::Get).count() as u64;
    let at = |size: &u64| {
        let misses = gets - bound.hits(*size).min(gets);
        Tally { gets, misses, ..Tally::default() }
    };
    sizes.iter().map(at).collect()
}

/// Returns an empty cache for this trace.
pub fn simulation(
    kind: Kind,
    scale: Scale,
    capacity: u64,
    trace: &Copies,
    next_uses: &Arc<[u32]>,
) -> Simulation {
    let objects = trace.objects();
    let all: u64 = trace.iter().map(|request| u64::from(scale.weigh(&request))).sum();
    let mean = (all / trace.len().max(1) as u64).max(1);
    let items = (capacity / mean).clamp(1, u64::from(objects.max(1)));
    let setting = Setting { capacity, objects, items, next_uses: Arc::clone(next_uses) };
    Simulation::new(kind.build(&setting), scale, capacity, objects)
}
