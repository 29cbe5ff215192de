//! The manifest of a site as the workload of a load: reads it, and makes a Surge workload again from its seed.

use crate::failure::Failure;
use ::load::manifest::{FORMAT, Kind, Manifest, VERSION};
use ::load::parameters::{Parameters, Provenance, Set};
use ::load::site::{MANIFEST, sequence_digest};
use ::load::surge::Surge;
use std::path::Path;

/// Reads a manifest, given its folder or its file. Returns its name for messages, too.
pub(super) fn read(path: &Path) -> Result<(String, Manifest), Failure> {
    let file = if path.is_dir() {
        path.join(MANIFEST)
    } else {
        path.to_owned()
    };
    let name = file.display().to_string();
    let text = std::fs::read_to_string(&file).map_err(|error| {
        Failure::Usage(format!(
            "cannot read the manifest `{name}`: {error}; `weir site` writes one"
        ))
    })?;
    let manifest: Manifest = serde_json::from_str(&text)
        .map_err(|error| Failure::Usage(format!("`{name}` is not a site manifest: {error}")))?;
    if manifest.format != FORMAT || manifest.version != VERSION {
        return Err(Failure::Usage(format!(
            "`{name}` is a {} manifest of version {}; this program reads {FORMAT} {VERSION}",
            manifest.format, manifest.version
        )));
    }
    Ok((name, manifest))
}

/// The workload of a manifest, made again from its seed and compared with the manifest.
pub(super) fn surge(name: &str, manifest: &Manifest) -> Result<Surge, Failure> {
    let usage = |why: String| Failure::Usage(format!("`{name}`: {why}"));
    if manifest.kind != Kind::Surge {
        return Err(usage(format!(
            "it is a {:?} site; this needs a Surge site",
            manifest.kind
        )));
    }
    let set: Set = manifest.set.parse().map_err(usage)?;
    let given: Vec<(&str, &str)> = manifest
        .choices
        .iter()
        .filter(|choice| choice.provenance == Provenance::Given)
        .map(|choice| (choice.name.as_str(), choice.value.as_str()))
        .collect();
    let parameters = Parameters::with(set, &given).map_err(|error| usage(error.to_string()))?;
    let surge = Surge::new(parameters, manifest.seed).map_err(|error| usage(error.to_string()))?;
    let same = surge.files.len() == manifest.files.len()
        && surge.objects.len() == manifest.objects.len()
        && surge
            .files
            .iter()
            .zip(&manifest.files)
            .all(|(made, told)| made.size.0 == told.bytes)
        && surge
            .objects
            .iter()
            .zip(&manifest.objects)
            .all(|(made, told)| made.files == told.files)
        && manifest.sequence_xxh3.as_deref() == Some(sequence_digest(&surge).as_str());
    if same {
        Ok(surge)
    } else {
        Err(usage(format!(
            "in this version, its seed and parameters give another workload than it lists ({} made it); write the site again",
            manifest.generator
        )))
    }
}
