//! The files of a Surge site: base files are pages, embedded files GIFs, single files text.
//!
//! File `n` is named `n.html`, `n.gif` or `n.txt`, in one folder: names are short because a page references up to 149
//! others.

use super::{Described, content};
use crate::files::Class;
use crate::prose::Prose;
use crate::surge::Surge;
use crate::{gif, page};
use std::io::{self, Write};

/// The path of a file below the root.
pub fn path(number: u32, class: Class) -> String {
    let extension = match class {
        Class::Base => "html",
        Class::Embedded => "gif",
        Class::Single => "txt",
    };
    format!("{number}.{extension}")
}

pub(super) fn describe(surge: &Surge, number: u32) -> Described {
    let file = surge.files[number as usize];
    Described {
        path: path(number, file.class),
        media_type: match file.class {
            Class::Base => "text/html",
            Class::Embedded => "image/gif",
            Class::Single => "text/plain",
        },
        class: file.class,
        size: file.size,
        provenance: None,
    }
}

/// For each file, the object whose page it is; only base files have one.
pub(super) fn pages(surge: &Surge) -> Vec<u32> {
    let mut pages = vec![0; surge.files.len()];
    for (number, object) in surge.objects.iter().enumerate() {
        pages[object.files[0] as usize] = number as u32;
    }
    pages
}

pub(super) fn write(surge: &Surge, pages: &[u32], number: u32, out: &mut impl Write) -> io::Result<()> {
    let file = surge.files[number as usize];
    let mut rng = content(surge.seed, number);
    match file.class {
        Class::Base => {
            let object = &surge.objects[pages[number as usize] as usize];
            let references: Vec<String> = object.files[1..]
                .iter()
                .map(|&embedded| page::reference(&path(embedded, Class::Embedded)))
                .collect();
            page::write(&format!("Page {number}"), &references, file.size, rng, out)
        }
        Class::Embedded => gif::Layout::new(file.size.0, 1)
            .ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("no GIF has {} bytes", file.size.0),
                )
            })?
            .write(&mut rng, out),
        Class::Single => Prose::new(rng).lines(file.size.0, out),
    }
}
