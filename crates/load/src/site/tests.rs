//! Sites byte by byte: lengths, references, digests, published sums.

use super::*;
use crate::manifest::Digesting;
use crate::parameters::{Parameters, Set};
use ::gif;
use flate2::{Compression, write::ZlibEncoder};

fn bytes(site: &Site, number: u32) -> Vec<u8> {
    let mut out = Vec::new();
    site.contents()
        .write(number, &mut out)
        .unwrap_or_else(|e| panic!("{number}: {e}"));
    out
}

/// Digests of all files; checks each file's length.
fn digests(site: &Site) -> Vec<String> {
    let contents = site.contents();
    (0..site.files())
        .map(|number| {
            let mut out = Digesting::new(io::sink());
            contents
                .write(number, &mut out)
                .unwrap_or_else(|e| panic!("{number}: {e}"));
            let (bytes, digest, _) = out.finish();
            assert_eq!(
                bytes,
                site.describe(number).size.0,
                "{}",
                site.describe(number).path
            );
            digest
        })
        .collect()
}

fn small(seed: u64) -> Site {
    let given = [("files", "200"), ("size-max", "200000")];
    let parameters = Parameters::with(Set::Table8, &given).unwrap();
    Site::Surge(Box::new(Surge::new(parameters, Seed(seed)).unwrap()))
}

fn fingerprint(site: &Site) -> String {
    let mut out = Digesting::new(io::sink());
    for digest in digests(site) {
        out.write_all(digest.as_bytes()).unwrap();
    }
    out.finish().1
}

/// Same seed, same bytes, on any machine: these digests were computed once and may change only with a version.
#[test]
fn the_same_seed_gives_the_same_bytes() {
    let Site::Surge(surge) = small(1) else {
        unreachable!("a Surge site")
    };
    let made = [
        fingerprint(&small(1)),
        sequence_digest(&surge),
        fingerprint(&Site::Webstone {
            list: List::Table1,
            seed: Seed(1),
            depth: 0,
        }),
        fingerprint(&Site::Microscape {
            tags: TagCase::Lower,
            seed: Seed(1),
        }),
    ];
    assert_eq!(
        made,
        [
            "9aa1425825a0f812d0fb00e8bcc260e7",
            "99e31bec2c00bcf1c9f2ed824c303379",
            "e0e03457149afae80605157d78054705",
            "5f1b10b9c0a1ef7b01771a88eb6b03d2"
        ]
    );
    assert_ne!(fingerprint(&small(2)), made[0]);
}

#[test]
fn pages_name_exactly_what_their_objects_embed() {
    let site = small(1);
    let Site::Surge(surge) = &site else {
        unreachable!("a Surge site")
    };
    for object in surge.objects.iter().filter(|object| object.files.len() > 1) {
        let text = String::from_utf8(bytes(&site, object.files[0])).unwrap();
        let named: Vec<String> = text
            .split("<img src=")
            .skip(1)
            .map(|rest| rest.split('>').next().unwrap().to_owned())
            .collect();
        let wanted: Vec<String> = object.files[1..]
            .iter()
            .map(|&file| site.describe(file).path)
            .collect();
        assert_eq!(named, wanted);
    }
}

#[test]
fn the_manifest_adds_up() {
    let site = small(1);
    let manifest = site.manifest(digests(&site), "test");
    assert_eq!(manifest.totals.files, 200);
    assert_eq!(manifest.totals.bytes, site.bytes());
    let requests: u64 = manifest.files.iter().map(|file| file.references).sum();
    assert_eq!(manifest.totals.requests, requests);
    assert!(
        manifest
            .choices
            .iter()
            .any(|choice| choice.provenance == Provenance::RecalledUnverified)
    );
}

#[test]
fn microscape_meets_every_published_count() {
    let sizes = |animated: bool| {
        let images = IMAGES_OF.iter().filter(move |image| image.animated == animated);
        images.map(|image| image.size.0).collect::<Vec<u64>>()
    };
    const IMAGES_OF: [microscape::Image; 42] = microscape::IMAGES;
    let (still, moving) = (sizes(false), sizes(true));
    assert_eq!((still.len(), still.iter().sum::<u64>()), (40, 103_299));
    assert_eq!((moving.len(), moving.iter().sum::<u64>()), (2, 24_988));
    let within = |low: u64, high: u64| {
        still
            .iter()
            .chain(&moving)
            .filter(|&&size| (low..high).contains(&size))
            .count()
    };
    assert_eq!(
        (within(0, 1024), within(1024, 2048), within(2048, 3072)),
        (19, 7, 6)
    );
    assert_eq!(still.iter().max(), Some(&40_960));
    let recovered = IMAGES_OF
        .iter()
        .filter(|image| image.origin == microscape::Origin::Recovered);
    assert_eq!(recovered.count(), 15);
}

#[test]
fn microscape_decodes_and_deflates_as_the_document_says() {
    let deflated = |tags: TagCase, seed: u64| {
        let seed = Seed(seed);
        let site = Site::Microscape { tags, seed };
        let page = bytes(&site, 0);
        assert_eq!(page.len(), 43_008);
        let text = String::from_utf8(page.clone()).unwrap().to_ascii_lowercase();
        for image in &microscape::IMAGES {
            assert_eq!(
                text.matches(&format!("src=\"{}\"", image.path)).count(),
                1,
                "{}",
                image.path
            );
        }
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&page).unwrap();
        encoder.finish().unwrap().len() as f64 / page.len() as f64
    };
    for seed in 1..=5 {
        for tags in [TagCase::Lower, TagCase::Mixed] {
            let share = deflated(tags, seed);
            let printed = tags.deflates_to();
            assert!(
                (share - printed).abs() < 0.005,
                "seed {seed}, {tags:?}: {share}, printed {printed}"
            );
        }
    }
    let site = Site::Microscape {
        tags: TagCase::Lower,
        seed: Seed(1),
    };
    for number in 1..site.files() {
        let content = bytes(&site, number);
        let mut decoder = gif::DecodeOptions::new().read_info(&content[..]).unwrap();
        let mut frames = 0;
        while decoder.read_next_frame().unwrap().is_some() {
            frames += 1;
        }
        let moving = microscape::IMAGES[number as usize - 1].animated;
        assert_eq!(frames, if moving { 6 } else { 1 });
    }
}

fn webstone(list: List, depth: u8) -> Site {
    Site::Webstone {
        list,
        seed: Seed(1),
        depth,
    }
}

#[test]
fn nested_folders_change_the_paths_of_webstone_files_and_nothing_else() {
    for list in List::ALL {
        let manifest = |depth| {
            let site = webstone(list, depth);
            site.manifest(digests(&site), "test")
        };
        let (flat, mut nested) = (manifest(0), manifest(3));
        for (file, listed) in nested.files.iter_mut().zip(list.files()) {
            assert_eq!(file.path, format!("folder/folder/folder/{}", listed.path));
            file.path = listed.path.to_owned();
        }
        assert_eq!(
            nested.choices.pop().map(|choice| (choice.name, choice.value)),
            Some(("depth".to_owned(), "3".to_owned()))
        );
        assert_eq!(nested, flat);
    }
}

#[test]
fn webstone_files_have_their_lengths() {
    for list in List::ALL {
        let site = webstone(list, 0);
        digests(&site);
        assert_eq!(
            site.manifest(digests(&site), "test").totals.sequence,
            list.files().iter().map(|f| f.weight).sum::<u64>()
        );
    }
}
