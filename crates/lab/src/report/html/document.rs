//! The page of a document: its conclusion, figures then beside now, a card for each claim. Everything else is folded.

use super::card::card;
use super::details::{assumed, figure, made_with, marks_in_tables, own, place, printed, runs};
use super::{FOOT, entries, escaped, file, head, legend, named, prose};
use crate::coverage;
use crate::ledger::Study;
use crate::observation::World;
use crate::plan::Picture;
use crate::report::{Material, conclusion, picture};
use std::fmt::Write;

/// The page.
pub(super) fn page(material: &Material<'_>, study: &Study) -> String {
    let plan = &study.plan;
    let mut html = head(&plan.title);
    html.push_str("<nav><a href=\"report.html\">All claims</a> ");
    for other in material.studies.iter().filter(|other| other.name != study.name) {
        let _ = write!(
            html,
            "<a href=\"{}\">{}</a> ",
            escaped(&file(&other.name)),
            escaped(&named(&other.plan))
        );
    }
    let _ = writeln!(
        html,
        "</nav>\n<h1 id=\"{}\">{}</h1>",
        study.name,
        escaped(&plan.title)
    );
    let all: Vec<_> = entries(material, study).collect();
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        html,
        "<p class=\"lead\">{}</p>",
        prose(&conclusion::sentences(study, &all).join(" "))
    );
    let front = || plan.pictures.iter().filter(|one| one.front);
    let is_drawn = |one: &&Picture| picture::draw(study, one, "").is_some();
    // An empty picture stands only where there is nothing else.
    let is_any_drawn = front().any(|one| is_drawn(&one));
    for one in front().filter(|one| !is_any_drawn || is_drawn(one)) {
        pair(&mut html, study, one);
    }
    legend(
        &mut html,
        "Cause: the smallest change with which the claim holds.",
    );
    html.push_str("<section class=\"cards\">\n");
    for entry in all {
        card(&mut html, entry);
    }
    html.push_str("</section>\n");
    folded(&mut html, material, study);
    html.push_str(FOOT);
    html
}

/// A picture drawn once for then and once for now; alone if the plan has arms for one of them only.
fn pair(html: &mut String, study: &Study, one: &Picture) {
    // The simulation of the protocols since is of today.
    let names = match study.is_since() {
        true => ["Simulated", "Measured"],
        false => ["Then", "Now"],
    };
    let sides: [(&str, &[World]); 2] = [
        (names[0], &[World::Published, World::Simulated, World::Model]),
        (names[1], &[World::Aged, World::Measured]),
    ];
    let sides: Vec<(&str, Picture)> = sides
        .into_iter()
        .map(|(name, of)| {
            let worlds = one
                .worlds
                .iter()
                .copied()
                .filter(|world| of.contains(world))
                .collect();
            (
                name,
                Picture {
                    worlds,
                    ..one.clone()
                },
            )
        })
        .filter(|(_, side)| !side.worlds.is_empty())
        .collect();
    let class = if sides.len() == 1 { "pair alone" } else { "pair" };
    let reach = shared_reach(study, &sides);
    let differs = match reach {
        None if sides.len() > 1 && !one.pie => " <span class=\"small\">The scales differ.</span>",
        _ => "",
    };
    let _ = write!(
        html,
        "<section class=\"{class}\"><h2>{}{}{differs}</h2>",
        escaped(&one.title),
        place(one)
    );
    let kind = if one.pie { " class=\"pie\"" } else { "" };
    for (name, side) in sides {
        let drawn = picture::draw_up_to(study, &side, "", reach);
        let of = drawn.as_ref().map_or(String::new(), |(_, drawn)| {
            let names: Vec<String> = drawn
                .iter()
                .map(|world| format!("<span class=\"w {0}\">{0}</span>", world.name()))
                .collect();
            names.join(" ")
        });
        let body = match &drawn {
            Some((svg, _)) => svg.as_str(),
            None => "<p class=\"empty\">Nothing to draw yet: no run has the numbers.</p>",
        };
        // What only formulas say was true then and is now.
        let name = if side.worlds == [World::Model] {
            "By the formulas"
        } else {
            name
        };
        let _ = write!(
            html,
            "<figure{kind}><figcaption><b>{name}</b> {of}</figcaption>{body}</figure>"
        );
    }
    html.push_str("</section>\n");
}

/// The largest value of both sides, so that their value axes are the same; `None` if a side is alone, or if one side would
/// be too low to read.
fn shared_reach(study: &Study, sides: &[(&str, Picture)]) -> Option<f64> {
    let [(_, then), (_, now)] = sides else { return None };
    shared(picture::most(study, then)?, picture::most(study, now)?)
}

/// The larger of two values, unless the other would be less than a fifth of an axis.
fn shared(then: f64, now: f64) -> Option<f64> {
    let (low, high) = (then.min(now), then.max(now));
    (low * 5.0 >= high).then_some(high)
}

/// Everything behind the first view.
fn folded(html: &mut String, material: &Material<'_>, study: &Study) {
    let plan = &study.plan;
    let _ = write!(
        html,
        "<details><summary>Question, prediction and known gaps</summary><p>{}</p><p><b>Prediction.</b> {}</p>",
        prose(&plan.question),
        prose(&plan.prediction)
    );
    if !plan.gaps.is_empty() {
        html.push_str("<p><b>Known gaps.</b></p><ul class=\"gaps\">");
        for gap in &plan.gaps {
            let _ = write!(html, "<li>{}</li>", prose(gap));
        }
        html.push_str("</ul>");
    }
    html.push_str("</details>\n");
    if !plan.pictures.is_empty() {
        let sides: Vec<Picture> = plan
            .pictures
            .iter()
            .flat_map(|one| picture::by_world(study, one))
            .collect();
        let all = match sides.len() {
            1 => "The picture".to_owned(),
            count => format!("All {count} pictures"),
        };
        let _ = writeln!(html, "<details><summary>{all}</summary><div class=\"gallery\">");
        for side in &sides {
            figure(html, study, side);
        }
        html.push_str("</div></details>\n");
    }
    if !plan.tables.is_empty() || !plan.setups.is_empty() {
        html.push_str("<details><summary>The document's tables with our numbers</summary>\n");
        marks_in_tables(html);
        for setup in &plan.setups {
            made_with(html, study, setup);
        }
        for table in &plan.tables {
            printed(html, study, table);
        }
        html.push_str("</details>\n");
    }
    if !plan.grids.is_empty() {
        html.push_str("<details><summary>Tables: the median of the runs</summary>\n");
        for one in &plan.grids {
            own(html, study, one);
        }
        html.push_str("</details>\n");
    }
    let covered = coverage::of(&plan.document);
    if !covered.is_empty() {
        html.push_str(
            "<details><summary>Every table and figure of the document, and where it is</summary><div class=\"wide\">\
             <table><thead><tr><th class=\"l\">In the document<th class=\"l\">Content<th class=\"l\">Here</tr></thead><tbody>",
        );
        for item in covered {
            let _ = writeln!(
                html,
                "<tr><td class=\"l\">{}<td class=\"l\">{}<td class=\"l\">{}</tr>",
                escaped(&item.item),
                escaped(&item.about),
                prose(&item.place())
            );
        }
        html.push_str("</tbody></table></div></details>\n");
    }
    assumed(html, study);
    runs(html, study, material.raw);
    let _ = writeln!(
        html,
        "<details class=\"plan\" id=\"plan-{0}\"><summary>The plan, experiments/{0}.toml</summary><pre>{1}</pre></details>",
        study.name,
        escaped(&study.text)
    );
}

#[cfg(test)]
mod tests {
    use super::shared;

    #[test]
    fn sides_share_an_axis_unless_one_would_be_too_low() {
        assert_eq!(shared(100.0, 20.0), Some(100.0));
        assert_eq!(shared(3.0, 3.5), Some(3.5));
        assert_eq!(shared(100.0, 19.0), None);
    }
}
