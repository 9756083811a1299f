//! From options to a running server, and back to nothing.
//!
//! Everything that can fail, fails before the first thread starts. The order matters: sockets are
//! bound and limits raised while the process may still be root; the pidfile is opened as the user
//! that the server becomes, before any client can connect; the process goes to the background when
//! hardly anything can fail any more, because failures are no longer seen then, but before it has
//! threads; and the pidfile is written by the process that stays.
//!
//! A memory file is read before any client can connect, and removed as the very last step before
//! the server serves ([`crate::memory_file`]): a failure before that leaves it to the next start.
//!
//! Signals are taken over before all that. A signal to stop ends a process that does not serve yet
//! at once; SIGHUP waits until it serves.
//!
//! On a signal to stop, the threads end first. Then memory moves to flash, or is written to the
//! memory file, if there is one of them, until that is done, its time is up, or another such signal
//! comes, a second or more later.
//!
//! Threads: this one waits for signals, one accepts, `-t` of them work, one does the cache's
//! background work, one trains dictionaries, with `--auth-file` one checks passwords, with
//! `--flash` one watches whether its device answers, until that is closed, and with `--admin-port`
//! one answers there, and one collects for it, whenever the process may have threads, also while
//! memory is restored or saved.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::os::unix::fs::lchown;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use ::io::SystemClock;
use ::io::moment::Stopwatch;
use ::io::poll::{Poll, Waker};
use ::io::process::{self, User};
use larder::{
    BuildError, Builder, Cache, FlashSettings, ImageHead, ImageSaved, Repartition, Restored,
    SaveEnd,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::acceptor::{self, Acceptor};
use crate::admin::{self, AdminThread};
use crate::commands::redis::Listings;
use crate::counters::{CounterSets, Sums};
use crate::dump::Dumps;
use crate::exit::Failed;
use crate::flash_file;
use crate::flash_watch::FlashWatch;
use crate::insight::{Insight, KeyObserver};
use crate::listen::{self, Endpoint};
use crate::live_options::Live;
use crate::logins::{self, Logins};
use crate::machine;
use crate::memory_file::{Found, MemoryFile, Written};
use crate::namespaces::{DELIMITER, Namespaces};
use crate::notify::Supervisor;
use crate::options::{Given, Options, Settings};
use crate::parked::ParkedLimit;
use crate::pidfile::PidFile;
use crate::reload::reload;
use crate::sampling::{SAMPLES_MAX, Sampler, Unsampled};
use crate::server::{Connections, Phase, PhaseCell, Server};
use crate::stats::column_pages;
use crate::stdio;
use crate::tls::Tls;
use crate::unfinished::UnfinishedLimit;
use crate::users::Users;
use crate::watch::{EvictionLog, Watchers};
use crate::worker::{Mailbox, Worker};
use crate::worker_lists::Lists;

/// Descriptors beside those of connections, listeners and threads: standard streams, queues, files.
pub const RESERVED_FILES: u64 = 64;

/// Signals to stop count as one request as long as they come within this time of when saving
/// begins. `timeout`, and anyone who signals a process and then its group, sends two in a row, and
/// means no more by it.
const ONE_STOP: Duration = Duration::from_secs(1);

/// Bytes of addresses for stacks and the heap, beside an eighth of the memory limit: under a limit
/// on locked memory that leaves less, memory is not locked.
const LOCKED_BESIDE_BYTES: u64 = 256 << 20;

/// Signals that stop the server.
const STOPS: [i32; 3] = [SIGINT, SIGTERM, SIGUSR1];

/// Free bytes of the heap that stay resident for more than a second. Long values that come and go
/// leave more behind than they need at any time: a server of 64 MiB with flash had some 20 MiB.
const SPARE_HEAP_BYTES_MAX: u64 = 4 << 20;

/// The background thread looks for work at least this often.
const MAINTAIN_PAUSE: Duration = Duration::from_millis(100);

/// Serves until a signal says stop.
pub fn serve(settings: Settings, given: &Given) -> Result<(), Failed> {
    let signals = hear_signals()?;
    // Its messages may go to a file.
    process::survive_file_limit().map_err(failed)?;
    let options = settings.options.clone();
    let supervisor = Supervisor::of_the_environment()?;
    stdio::err(format_args!("larder: {}", options.summary()));
    for warning in options.warnings.iter().chain(&machine::beyond(&options)) {
        stdio::err(format_args!("larder: {warning}"));
    }
    let endpoints = listen::bind(&options)?;
    // The user that the server becomes may not be allowed to read the key.
    let tls = Tls::load(&options)?;
    let admin = admin::bind(&options)?;
    prepare_process(&options, endpoints.len())?;
    let pidfile = options.pidfile.as_deref().map(PidFile::open).transpose()?;
    let memory_file = options.memory_file.as_deref().map(MemoryFile::open).transpose()?;
    let polls =
        (0..options.threads).map(|_| Poll::new()).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let accept_poll = Poll::new().map_err(failed)?;
    let head = memory_file.as_ref().map(MemoryFile::head);
    let users = options.auth_file.as_deref().map(Users::load).transpose()?;
    let mut server = build(options, head, &endpoints, &polls, &accept_poll)?;
    server.users = users;
    server.tls = tls;
    server.config.clone_from(&settings.file);
    let ended = thread::scope(|scope| {
        // Ends its thread when it is dropped, however this function ends.
        let mut admin = AdminThread::new(admin, &server);
        if !server.options.daemon {
            // It answers while memory is restored. A process that is yet to fork has no threads.
            admin.start(scope)?;
        }
        restore(&server, memory_file.as_ref(), &supervisor)?;
        listen::listen(&endpoints, &server.options)?;
        let acceptor = Acceptor::new(&server, endpoints, accept_poll).map_err(failed)?;
        announce(&server, &admin);
        settle_process(&server.options)?;
        announce_columns(&server);
        admin.start(scope)?;
        let _watch = FlashWatch::start(scope, &server)?;
        start_flash(&server)?;
        let asked = (settings, given, signals, supervisor);
        Ok(run(&server, polls, acceptor, (memory_file, pidfile), asked)?)
    });
    if matches!(server.phase.get(), Phase::Starting | Phase::Restoring) {
        // Nothing was served. Left open, the tier would be void if the machine restarted now. Of
        // two errors the first is reported.
        let _ = flash_file::close(&server);
    }
    ended
}

/// Starts the threads and waits for the end.
fn run(
    server: &Server,
    polls: Vec<Poll>,
    acceptor: Acceptor<'_>,
    (memory_file, pidfile): (Option<MemoryFile>, Option<PidFile>),
    (mut settings, given, heard, supervisor): (Settings, &Given, Heard, Supervisor),
) -> Result<(), String> {
    let mut signals = heard.wait_from_now_on();
    let pidfile = pidfile.map(PidFile::write).transpose()?;
    let memory_file = memory_file.map(discard).transpose()?;

    // Before any client is served, so that none is told otherwise afterwards.
    server.phase.set(Phase::Serving);
    thread::scope(|scope| {
        for (number, poll) in polls.into_iter().enumerate() {
            spawn(scope, format!("worker-{number}"), move || work(server, number, poll));
        }
        spawn(scope, "acceptor".to_owned(), move || acceptor.run());
        if server.users.is_some() {
            spawn(scope, "logins".to_owned(), || logins::check_all(server));
        }
        spawn(scope, "maintain".to_owned(), || maintain(server));
        spawn(scope, "train".to_owned(), || train(server));
        supervisor.ready(server);
        for signal in &mut signals {
            if signal == SIGHUP {
                reload(server, &mut settings, given);
                continue;
            }
            server.log(0, &format!("signal {signal}: stopping"));
            break;
        }
        server.phase.set(Phase::Stopping);
        supervisor.stopping(server);
        server.stop();
    });
    let saved = flash_file::check(server).and_then(|()| save(server, memory_file, &mut signals));
    let closed = flash_file::close(server);
    drop(pidfile);
    match (saved, closed) {
        (Err(first), Err(second)) => Err(format!("{first}; {second}")),
        (saved, closed) => saved.and(closed),
    }
}

/// The signals taken over, while the process starts.
struct Heard {
    signals: Signals,
    /// Whether signals to stop end the process at once.
    are_final: Arc<AtomicBool>,
}

/// Takes the signals over. One to stop ends the process wherever it is, as long as it starts: a
/// memory file takes a while to load, and is still there afterwards, as after a kill. The first
/// process of a container would not end by a signal without a handler. SIGHUP, which would end any
/// other, waits.
fn hear_signals() -> Result<Heard, String> {
    let are_final = Arc::new(AtomicBool::new(true));
    for signal in STOPS {
        flag::register_conditional_shutdown(signal, 0, Arc::clone(&are_final)).map_err(failed)?;
    }
    let signals = Signals::new(STOPS.iter().chain(&[SIGHUP])).map_err(failed)?;
    Ok(Heard { signals, are_final })
}

impl Heard {
    /// From here on all signals wait in a pipe, so that none can end the process half started.
    fn wait_from_now_on(self) -> Signals {
        self.are_final.store(false, Ordering::Relaxed);
        self.signals
    }
}

/// Runs a worker. Where latencies are not asked for, its code has no instructions to take them.
fn work(server: &Server, number: usize, poll: Poll) {
    match server.samples.of(number).zip(KeyObserver::new(&server.insight, number)) {
        Some((samples, lens)) => {
            Worker::new(server, number, poll, Sampler::new(samples, lens, number)).run();
        }
        None => Worker::new(server, number, poll, Unsampled).run(),
    }
}

/// The text of an error of the system at the start.
fn failed(error: std::io::Error) -> String {
    format!("cannot start: {error}")
}

/// Stores the items of the memory file.
fn restore(
    server: &Server,
    file: Option<&MemoryFile>,
    supervisor: &Supervisor,
) -> Result<(), String> {
    let Some(file) = file else { return Ok(()) };
    server.phase.set(Phase::Restoring);
    if let Some(bytes) = file.image_bytes() {
        server.log(0, &format!("restoring {bytes} bytes from the memory file before listening"));
        supervisor.restoring(server, bytes);
    }
    if let Some(found) = file.restore(&server.cache, server.options.threads)? {
        // Logged at every verbosity: an old file may be one that a start without it left behind.
        server.log(0, &restored_text(server.found.get_or_init(|| found)));
    }
    Ok(())
}

/// The log's text about the restored items.
fn restored_text(found: &Found) -> String {
    let Found { restored, evicted, age_s, ms } = *found;
    let Restored { items, bytes, expired, refused, lost, is_whole, behind_s, is_untimed } =
        restored;
    let when = match (behind_s, is_untimed) {
        (0, _) => format!("saved {age_s} s ago"),
        (_, false) => format!("saved {behind_s} s in the future by the clock"),
        (_, true) => format!(
            "saved {behind_s} s in the future by the clock, so that items with an expiry count as \
             expired"
        ),
    };
    format!(
        "restored {items} items of {bytes} bytes from the memory file in {ms} ms, {when}; \
         {expired} had expired, {refused} did not fit{}, {lost} were damaged{}",
        evicted_again(evicted),
        if is_whole { "" } else { ", or more: the file is incomplete" }
    )
}

/// The log's text about items for which there was memory until others came.
fn evicted_again(evicted: u64) -> String {
    match evicted {
        0 => String::new(),
        _ => format!(", {evicted} were evicted again for others"),
    }
}

/// Removes the file that was restored from, for good.
fn discard(mut file: MemoryFile) -> Result<MemoryFile, String> {
    file.discard()?;
    Ok(file)
}

/// Saves memory for the next start, to flash or to the memory file. If that fails, other than by
/// being cut short, the server ends with an error.
fn save(
    server: &Server,
    memory_file: Option<MemoryFile>,
    signals: &mut Signals,
) -> Result<(), String> {
    let patience = Duration::from_secs(server.live.save_seconds.load(Ordering::Relaxed));
    let began = Stopwatch::start();
    let mut is_hurried = false;
    let goes_on = || {
        is_hurried |= is_another_stop(began.elapsed(), signals.pending());
        !is_hurried && !began.rest_of(patience).is_zero()
    };
    let (text, is_cut) = match memory_file {
        _ if patience.is_zero() => return Ok(()),
        Some(file) => save_to_file(server, file, goes_on)?,
        None if server.options.flash.is_some() => save_to_flash(server, goes_on)?,
        None => return Ok(()),
    };
    let why = match is_cut {
        false => "",
        true if is_hurried => ": another signal came",
        true => ": --save-seconds have passed",
    };
    let seconds = began.elapsed().as_secs_f64();
    server.log(0, &format!("{text}, in {seconds:.1} s{why}"));
    Ok(())
}

/// Whether one of these signals asks to stop without saving, `elapsed` after saving began.
fn is_another_stop(elapsed: Duration, signals: impl Iterator<Item = i32>) -> bool {
    let stops = signals.filter(|signal| *signal != SIGHUP).count();
    stops > 0 && elapsed >= ONE_STOP
}

/// Moves memory to flash; returns the log's text about it, and whether it was cut short.
fn save_to_flash(server: &Server, goes_on: impl FnMut() -> bool) -> Result<(String, bool), String> {
    let saved = server.cache.save_to_flash(goes_on);
    let text = flash_file::saved_text(&saved);
    match saved.end {
        SaveEnd::Failing => Err(text),
        end => Ok((text, end == SaveEnd::Interrupted)),
    }
}

/// Writes memory to the memory file; returns the log's text about it, and whether it was cut short.
fn save_to_file(
    server: &Server,
    mut file: MemoryFile,
    goes_on: impl FnMut() -> bool,
) -> Result<(String, bool), String> {
    match file.save(&server.cache, goes_on) {
        Ok(Written::All(saved)) => {
            let ImageSaved { items, bytes, image_bytes, is_interrupted } = saved;
            let text = format!(
                "saved {items} items of {bytes} bytes as {image_bytes} bytes to the memory file"
            );
            Ok((text, is_interrupted))
        }
        Ok(Written::Part { bytes, error }) => Err(format!(
            "saved {bytes} bytes to the memory file, the most valuable items; the rest of memory \
             is lost: {error}"
        )),
        Err(error) => Err(format!("the contents of memory are lost: {error}")),
    }
}

/// Starts a named thread of the server.
fn spawn<'scope, 'env>(
    scope: &'scope thread::Scope<'scope, 'env>,
    name: String,
    body: impl FnOnce() + Send + 'scope,
) {
    thread::Builder::new()
        .name(name)
        .spawn_scoped(scope, body)
        .expect("the system gives the process its threads");
}

/// The most files open at a time beside those of connections, with this many listeners.
fn files_beside(listeners: usize, options: &Options) -> u64 {
    let admin = if options.admin_port.is_some() { admin::FILES_MAX } else { 0 };
    RESERVED_FILES + listeners as u64 + 4 * options.threads as u64 + admin
}

/// Has the system allow as many open files as these and `connections` need.
pub fn allow_files(
    connections_max: usize,
    listeners: usize,
    options: &Options,
) -> Result<(), String> {
    let beside = files_beside(listeners, options);
    let files = connections_max as u64 + beside;
    process::raise_file_limit(files).map_err(|error| {
        let text = format!("cannot allow {files} open files for -c {connections_max}: {error}");
        match process::file_limit() {
            Ok(limit) => text + &enough_files(limit, beside),
            Err(_) => text,
        }
    })
}

/// The log's text about a limit on open files, of which some are not for connections.
fn enough_files(limit: u64, others: u64) -> String {
    match limit.saturating_sub(others) {
        0 => format!("; {limit} are allowed (ulimit -Hn), and {others} are needed besides -c"),
        fit => format!("; {limit} are allowed (ulimit -Hn), enough for -c {fit}"),
    }
}

/// Sets the process's limits and user.
fn prepare_process(options: &Options, listeners: usize) -> Result<(), String> {
    io::heap::keep_small();
    allow_files(options.connections_max, listeners, options)?;
    if options.core_dumps {
        process::raise_core_limit().map_err(|error| format!("cannot allow core files: {error}"))?;
    }
    if options.lock_memory && process::is_root() {
        // Whether that sufficed shows when the memory is locked.
        let _ = process::raise_lock_limit();
    }
    match &options.user {
        Some(name) if !process::is_root() => {
            stdio::err(format_args!("larder: -u {name} has no effect: not started as root"));
            Ok(())
        }
        None if !process::is_root() => Ok(()),
        Some(name) => become_user(name, options)
            .map_err(|error| format!("cannot switch to {name} for --user: {error}")),
        None => {
            stdio::err("larder: running as root; use -u to switch to a user with fewer rights");
            Ok(())
        }
    }
}

/// Becomes another user, who then owns the Unix socket: by `-a` it is the owner's group that may
/// connect, and that must not be root's.
fn become_user(name: &str, options: &Options) -> std::io::Result<()> {
    let user = User::named(name)?;
    if let Some(path) = &options.unix_path {
        lchown(path, Some(user.user), Some(user.group))?;
    }
    user.become_it()
}

/// Goes to the background, and does what has to come after that.
fn settle_process(options: &Options) -> Result<(), String> {
    if options.daemon {
        process::daemonize().map_err(|error| format!("cannot run in the background: {error}"))?;
    }
    // A fork does not inherit locks. Without them the server works all the same.
    if options.lock_memory
        && let Err(error) = process::lock_memory()
    {
        let limit = process::lock_limit().map(|bytes| bytes >> 20);
        let limit = limit.map_or(String::new(), |it| format!("; ulimit -l is {it} megabytes"));
        stdio::err(format_args!(
            "larder: -k has no effect, memory cannot be locked: {error}{limit}"
        ));
    }
    Ok(())
}

/// With `-v`, says how far the memory limit may be raised: addresses may be short.
fn say_how_far_it_may_grow(cache: &Cache, options: &Options) {
    if options.verbosity > 0 {
        let megabytes = cache.memory_bytes_max() >> 20;
        stdio::err(format_args!("larder: cache_memlimit accepts up to {megabytes} megabytes"));
    }
}

/// Builds the cache and the state that the threads share. Everything else that the system may
/// refuse comes first: once the cache is built, a flash tier is open.
fn build(
    options: Options,
    memory_file: Option<Option<ImageHead>>,
    endpoints: &[Endpoint],
    polls: &[Poll],
    accept_poll: &Poll,
) -> Result<Server, Failed> {
    let memory_bytes = options.memory_megabytes << 20;
    let evictions = Arc::new(EvictionLog::default());
    let flash_was_there = options.flash.as_ref().is_some_and(|(path, _)| holds_bytes(path));
    let clock = Arc::new(SystemClock::new());
    let (flash_file, flash) = flash_file::open(&options)?.unzip();
    let builder = builder(&options, memory_file, flash, Arc::clone(&evictions));
    let mailboxes = polls
        .iter()
        .map(|poll| Mailbox::new(poll).map(Arc::new))
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    let acceptor = Waker::new(accept_poll.registry(), acceptor::WAKE).map_err(failed)?;
    let cache = builder.clock(clock.clone()).build();
    let cache = cache.map_err(|error| refused(&error, &options, flash_was_there))?;
    if let Some(file) = &flash_file {
        flash_file::make_private(file, &options);
    }
    say_how_far_it_may_grow(&cache, &options);
    let limit_bytes = cache.limit_bytes();
    if limit_bytes > memory_bytes {
        let (asked, used) = (options.memory_megabytes, limit_bytes >> 10);
        stdio::err(format_args!("larder: -m {asked} is too small for a cache; using {used} KiB"));
    }
    let memory_bytes = memory_bytes.max(limit_bytes);
    let sampled = if options.admin_port.is_some() { options.threads } else { 0 };
    let watchers = Watchers::default();
    watchers.set_detail(options.delimiter.is_some());
    Ok(Server {
        cache,
        flash_file,
        counters: CounterSets::new(options.threads),
        parked: ParkedLimit::new(memory_bytes, options.item_bytes_max, &mailboxes),
        unfinished: UnfinishedLimit::new(&mailboxes),
        mailboxes,
        acceptor,
        watchers,
        namespaces: Namespaces::new(options.threads, options.delimiter.unwrap_or(DELIMITER)),
        evictions,
        connections: Connections::default(),
        stopping: AtomicBool::new(false),
        verbosity: AtomicU32::new(options.verbosity),
        memory_bytes: AtomicUsize::new(memory_bytes),
        memory_megabytes: Mutex::new(options.memory_megabytes as u64),
        reset: Mutex::new(Sums::default()),
        tls: None,
        users: None,
        config: None,
        logins: Logins::default(),
        found: OnceLock::new(),
        phase: PhaseCell::default(),
        listings: Listings::default(),
        dumps: Dumps::default(),
        samples: Lists::new(sampled, SAMPLES_MAX),
        insight: Insight::new(sampled, memory_bytes),
        started: Stopwatch::start(),
        listening: endpoints.iter().map(|endpoint| endpoint.listener.name()).collect(),
        clock,
        live: Live::new(&options),
        options,
    })
}

/// Whether there is a file that is not empty.
fn holds_bytes(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() || found.len() > 0)
}

/// Reports why there is no cache. A file that was made for its flash tier is emptied again, so that
/// the next start may make it anew, of whatever size.
fn refused(error: &BuildError, options: &Options, flash_was_there: bool) -> Failed {
    let (BuildError::Flash(why), Some((path, bytes))) = (error, &options.flash) else {
        return format!("cannot build the cache: {error}").into();
    };
    let (mut text, path_text) = (error.to_string(), path.display());
    if flash_was_there {
        text.push_str(&format!(
            "; --flash {path_text} is left unchanged: name another file, or remove this one"
        ));
    } else {
        text.push_str(&format!("; --flash asks for {bytes} of {path_text}"));
        // A file that cannot be emptied is refused by its size next time, with the remedy.
        let _ = fs::OpenOptions::new().write(true).truncate(true).open(path);
    }
    // A device that fails may work another time. Its contents stay.
    let is_of_data = flash_was_there && why.source().is_none();
    if is_of_data { Failed::of_data(text) } else { text.into() }
}

/// The bytes of addresses that the cache may have so that all can be locked: addresses count,
/// touched or not, and so do those of stacks and the heap later, without which the server ends.
/// `None` where too little would be left for these: the cache then has as many as ever, and the
/// kernel locks nothing.
fn addresses_to_lock(memory_bytes: u64, limit_bytes: u64) -> Option<u64> {
    let needed = memory_bytes + memory_bytes / 8 + LOCKED_BESIDE_BYTES;
    Some(memory_bytes + limit_bytes.checked_sub(needed)? / 2)
}

/// The builder of the cache that the options ask for; with a memory file, from the file's
/// beginning.
fn builder(
    options: &Options,
    memory_file: Option<Option<ImageHead>>,
    flash: Option<FlashSettings>,
    evictions: Arc<EvictionLog>,
) -> Builder {
    let memory_bytes = options.memory_megabytes << 20;
    let mut builder = Cache::builder()
        .memory_bytes(memory_bytes)
        .item_bytes_max(options.item_bytes_max)
        .evict(options.evict)
        .policy(options.policy)
        .index(options.index)
        .layout(options.layout)
        .cost_unit_us(options.cost_unit_us)
        .compress(options.compressed)
        .quotas(options.quotas.clone())
        .observer(evictions)
        .threads(options.threads);
    if options.lock_memory
        && let Some(limit_bytes) = process::lock_limit()
        && let Some(bytes) = addresses_to_lock(memory_bytes as u64, limit_bytes)
    {
        builder = builder.address_bytes_max(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    if options.repartition {
        let given = options.cache_geometry.map(Repartition::given);
        builder = builder.repartition(given.unwrap_or_else(Repartition::for_this_processor));
    }
    if let Some(share) = options.hot_target {
        builder = builder.hot_target(share);
    }
    if let Some(measure) = options.measure_costs {
        builder = builder.measure_costs(measure);
    }
    if let Some(factor) = options.growth_factor {
        builder = builder.growth_factor(factor);
    }
    if let Some(bytes) = options.item_bytes_min {
        // memcached means the bytes of key, value and flags; the header beside them is small.
        builder = builder.chunk_bytes_min(bytes);
    }
    if let Some(flash) = flash {
        builder = builder.flash(flash);
    }
    if let Some(head) = memory_file {
        builder = builder.image(head);
    }
    builder
}

/// Starts the threads that read from flash: not before the process has forked for the last time.
fn start_flash(server: &Server) -> Result<(), String> {
    if server.options.flash.is_none() {
        return Ok(());
    }
    let method = server.cache.start_flash_reads();
    let method = method.ok_or("cannot start: the system provides no way to read --flash")?;
    server.log(1, &format!("flash is read by {}", method.name()));
    flash_file::announce(server);
    Ok(())
}

/// Logs where it listens: anyone who started it by hand sees that it serves, and which port the
/// kernel chose if that was left to it.
fn announce(server: &Server, admin: &AdminThread<'_>) {
    let mut out = std::io::stdout().lock();
    for name in &server.listening {
        // A closed output is no error.
        let _ = writeln!(out, "listening on {name}");
    }
    for address in admin.addresses() {
        let scheme = if server.admin_tls().is_some() { "https" } else { "http" };
        let _ = writeln!(out, "admin page on {scheme}://{address}/");
    }
    let _ = out.flush();
}

/// With `-v`, logs the kind of pages that columns are made of, if items move to them. Not before
/// the process has forked for the last time, since frames are looked up per process.
fn announce_columns(server: &Server) {
    let stats = server.cache.stats();
    let Some(found) = stats.repartition.filter(|_| server.options.verbosity > 0) else {
        return;
    };
    let by = match column_pages(stats.huge_pages, found.frames) {
        "huge" => "huge pages by offsets",
        "coloured" => "small pages by the colours of their frames",
        _ => "small pages by offsets that do not show the sets of the cache, as frames are hidden",
    };
    stdio::err(format_args!("larder: columns are made of {by}"));
}

/// Does the cache's background work.
fn maintain(server: &Server) {
    let mut flash = flash_file::Watch::begin(server);
    // It yields the CPU by itself, so that workers need not wait for it, and gives up the rest of
    // its time slice each time.
    let _ = ::io::thread::ask_for_short_turns();
    while !server.is_stopping() {
        let is_done = !server.cache.maintain();
        server.evictions.pass_on(&server.watchers, &server.mailboxes);
        flash_file::watch(server, &mut flash);
        if is_done {
            server.cache.wait_for_work(MAINTAIN_PAUSE);
        }
    }
}

/// Trains dictionaries beside the background work, and has the heap give back what it has to spare.
fn train(server: &Server) {
    // Without this, training takes its share of a core from other threads.
    let _ = ::io::thread::step_back();
    let mut looked_s = 0;
    while !server.is_stopping() {
        if !server.cache.train() {
            thread::sleep(MAINTAIN_PAUSE);
        }
        let now_s = server.now();
        if now_s != looked_s && spare_heap_bytes(server) > SPARE_HEAP_BYTES_MAX {
            ::io::heap::trim();
        }
        looked_s = now_s;
    }
}

/// Resident memory that is free in the heap, between pieces in use, in bytes: less than it is as
/// long as parts of slabs were never touched, and more by the stacks of all threads.
fn spare_heap_bytes(server: &Server) -> u64 {
    let anonymous = ::io::process::anonymous_bytes();
    let spare = anonymous.zip(::io::heap::used_bytes()).map(|(anonymous, heap)| {
        anonymous.saturating_sub(heap).saturating_sub(server.cache.used_bytes() as u64)
    });
    spare.unwrap_or(0)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The parts of a server with one worker, at a port of its own that does not listen yet.
    pub struct Parts {
        pub server: Server,
        pub endpoints: Vec<Endpoint>,
        pub poll: Poll,
        pub accept_poll: Poll,
    }

    impl Parts {
        pub fn new(options: Options) -> Self {
            let options = Options { port: 0, threads: 1, ..options };
            let endpoints = listen::bind(&options).expect("a free port");
            let poll = Poll::new().expect("a queue");
            let accept_poll = Poll::new().expect("a queue");
            let polls = std::slice::from_ref(&poll);
            let server = build(options, None, &endpoints, polls, &accept_poll).expect("a cache");
            Self { server, endpoints, poll, accept_poll }
        }
    }

    /// Regression: `-k` had no effect under a limit, because the kernel also counts the addresses
    /// that the memory limit may grow to.
    #[test]
    fn a_limit_of_locked_memory_leaves_room_for_stacks_and_the_heap() {
        let megabytes = |memory: u64, limit: u64| {
            addresses_to_lock(memory << 20, limit << 20).map(|bytes| bytes >> 20)
        };
        assert_eq!(megabytes(1024, 8), None);
        assert_eq!(megabytes(1024, 1024 + 128 + 255), None);
        assert_eq!(megabytes(1024, 1024 + 128 + 256), Some(1024));
        assert_eq!(megabytes(1024, 2048), Some(1024 + 320));
        assert_eq!(megabytes(64, 4096), Some(64 + (4096 - 64 - 8 - 256) / 2));
    }

    #[test]
    fn the_log_says_how_many_connections_a_limit_of_files_allows() {
        assert_eq!(enough_files(1024, 80), "; 1024 are allowed (ulimit -Hn), enough for -c 944");
        assert_eq!(enough_files(81, 80), "; 81 are allowed (ulimit -Hn), enough for -c 1");
        let none = "; 80 are allowed (ulimit -Hn), and 80 are needed besides -c";
        assert_eq!(enough_files(80, 80), none);
    }

    /// Regression: the log was silent, or said that they had expired.
    #[test]
    fn the_log_says_what_a_clock_that_is_behind_cost() {
        let restored = Restored { items: 7, expired: 5, is_whole: true, ..Restored::default() };
        let of = |behind_s, is_untimed| {
            let restored = Restored { behind_s, is_untimed, ..restored };
            restored_text(&Found { restored, age_s: 3, ..Found::default() })
        };
        assert!(of(0, false).contains(" saved 3 s ago; 5 had expired, 0 did not fit, "));
        assert!(of(60, false).contains(" saved 60 s in the future by the clock; 5 had expired, "));
        let text = of(61, true);
        assert!(
            text.contains(" by the clock, so that items with an expiry count as expired; 5 had")
        );
    }

    #[test]
    fn two_signals_in_a_row_are_one_stop_and_lose_nothing() {
        // Regression: `timeout` sends SIGTERM to the process and to its group, which contains it:
        // the two counted as two stops, and the second kept everything in memory from being saved.
        let second = Duration::from_secs(1);
        let just_before = second - Duration::from_nanos(1);
        assert!(!is_another_stop(Duration::ZERO, [SIGTERM].into_iter()));
        assert!(!is_another_stop(just_before, [SIGINT, SIGTERM].into_iter()));
        assert!(is_another_stop(second, [SIGHUP, SIGTERM].into_iter()));
        assert!(!is_another_stop(second, [SIGHUP].into_iter()));
        assert!(!is_another_stop(second, [].into_iter()));
    }
}
