//! Changes that are made up from an observed item: none is lost, and none is made to an item that
//! has changed meanwhile.

use larder::{Cache, Condition, DumpCursor, Dumped, Expiry, Store, Stored, Successor};

fn cache() -> Cache {
    Cache::builder().memory_bytes(64 << 20).build().expect("a small cache")
}

/// Returns the successor that keeps the fields of the item.
fn same(expiry: Expiry) -> Successor {
    Successor { flags: None, expiry, cost_us: None }
}

fn replace(cache: &Cache, key: &[u8], value: &[u8]) -> bool {
    let session = cache.session();
    let hash = cache.hash(key);
    let observed = session.observe(key, hash).expect("in memory").expect("it is there");
    let expiry = observed.item().expiry();
    let mut draft = session.draft_over(&observed, same(expiry), value.len()).expect("room");
    draft.write(value);
    session.replace(&observed, draft)
}

#[test]
fn an_observed_item_is_replaced_touched_and_removed() {
    let cache = cache();
    let (key, hash) = (b"k", cache.hash(b"k"));
    let later = Expiry::at(cache.session().now() + 1000);
    cache.set(key, b"one", later).expect("stored");
    assert!(replace(&cache, key, b"second"));
    let session = cache.session();
    let observed = session.observe(key, hash).expect("in memory").expect("it is there");
    assert_eq!((observed.item().to_vec(), observed.item().expiry()), (b"second".to_vec(), later));
    // Without room for an expiry, and with it.
    for expiry in [Expiry::NEVER, Expiry::at(later.second() + 1), later] {
        let observed = session.observe(key, hash).expect("in memory").expect("it is there");
        assert_eq!(session.touch_observed(&observed, expiry), Ok(true));
        let observed = session.observe(key, hash).expect("in memory").expect("it is there");
        assert_eq!(observed.item().expiry(), expiry);
    }
    let observed = session.observe(key, hash).expect("in memory").expect("it is there");
    assert!(session.remove_observed(&observed));
    assert!(session.observe(key, hash).expect("in memory").is_none());
    cache.set(key, b"again", Expiry::NEVER).expect("stored");
    let observed = session.observe(key, hash).expect("in memory").expect("it is there");
    assert_eq!(session.touch_observed(&observed, Expiry::PAST), Ok(true));
    assert_eq!(cache.get(key), None);
}

#[test]
fn an_item_changed_meanwhile_is_left_alone() {
    let cache = cache();
    let (key, hash) = (b"k", cache.hash(b"k"));
    let later = Expiry::at(cache.session().now() + 1000);
    // Another value, another expiry, an end, and a flush.
    let changes: [&dyn Fn(); 4] = [
        &|| cache.set(key, b"two", Expiry::NEVER).expect("stored"),
        &|| assert_eq!(cache.session().touch(key, hash, later), Ok(true)),
        &|| assert!(cache.session().remove(key, hash, &Default::default()).is_ok()),
        &|| cache.flush(None),
    ];
    for (number, change) in changes.iter().enumerate() {
        cache.set(key, b"one", Expiry::at(later.second() + 5)).expect("stored");
        let session = cache.session();
        let observed = session.observe(key, hash).expect("in memory").expect("it is there");
        let mut draft = session.draft_over(&observed, same(Expiry::NEVER), 1).expect("room");
        draft.write(b"x");
        change();
        let now = cache.get(key);
        assert!(!session.replace(&observed, draft), "{number}");
        assert_eq!(
            session.touch_observed(&observed, Expiry::at(later.second() + 9)),
            Ok(false),
            "{number}"
        );
        assert!(!session.remove_observed(&observed), "{number}");
        assert_eq!(cache.get(key), now, "{number}");
    }
}

#[test]
fn no_update_of_many_threads_is_lost() {
    const THREADS: usize = 4;
    const ADDITIONS: usize = 500;
    let cache = cache();
    cache.set(b"n", b"0", Expiry::NEVER).expect("stored");
    let add = || {
        let hash = cache.hash(b"n");
        for _ in 0..ADDITIONS {
            loop {
                let session = cache.session();
                let observed = session.observe(b"n", hash).expect("in memory").expect("there");
                let text = String::from_utf8(observed.item().to_vec()).expect("digits");
                let next = (text.parse::<usize>().expect("a number") + 1).to_string();
                let draft = session.draft_over(&observed, same(Expiry::NEVER), next.len());
                let Ok(mut draft) = draft else { continue };
                draft.write(next.as_bytes());
                if session.replace(&observed, draft) {
                    break;
                }
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| _ = scope.spawn(add)));
    assert_eq!(cache.get(b"n"), Some((THREADS * ADDITIONS).to_string().into_bytes()));
}

#[test]
fn a_listing_goes_on_from_a_number() {
    let cache = cache();
    let keys = 3000;
    for number in 0..keys {
        let value = vec![b'v'; number % 700];
        cache.set(format!("key{number}").as_bytes(), &value, Expiry::NEVER).expect("stored");
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut number = Some(0);
    while let Some(at) = number {
        let mut cursor = DumpCursor::from_number(at).expect("a number that was given");
        let session = cache.session();
        let dumped = session.dump(&mut cursor, 10, |item| _ = seen.insert(item.key().to_vec()));
        number = (dumped == Dumped::More).then(|| cursor.number());
        assert_ne!(number, Some(at), "it goes on");
    }
    assert_eq!(seen.len(), keys);
    for number in [4, 1 << 63 | 2, 3 << 62 | 7, u64::MAX] {
        assert!(DumpCursor::from_number(number).is_none(), "{number}");
    }
}

#[test]
fn a_successor_has_what_it_is_given() {
    let cache = cache();
    let (key, hash) = (b"k", cache.hash(b"k"));
    let session = cache.session();
    let attributes = larder::Attributes { flags: 7, ..Default::default() };
    let draft = session.reserve(key, hash, attributes, 0).expect("room");
    let stored = session.store(draft, Store::when(Condition::Absent)).expect("stored");
    assert!(matches!(stored, Stored::Stored { .. }));
    for (flags, shown) in [(None, 7), (Some(0), 0)] {
        let observed = session.observe(key, hash).expect("in memory").expect("it is there");
        let successor = Successor { flags, expiry: Expiry::NEVER, cost_us: Some(99) };
        let draft = session.draft_over(&observed, successor, 0).expect("room");
        assert!(session.replace(&observed, draft));
        let item = session.get(key, hash).expect("it is there");
        assert_eq!((item.flags(), item.cost_us()), (shown, 99));
    }
}
