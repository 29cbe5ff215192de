//! Which measurements the figures and tables of a plan show. Decides that from the plan alone, before anything has run;
//! how a report draws them is up to the report.

use crate::document::cells;
use crate::observation::{Labels, World};
use crate::plan::{Picture, Plan};
use crate::rule::Planned;

/// The measurements that one part of a picture, or one cell of a table, takes from one world.
struct Selection {
    world: World,
    measure: String,
    labels: Labels,
    /// Labels that they must have, with any value.
    named: Vec<String>,
}

impl Selection {
    fn may_be(&self, planned: &Planned) -> bool {
        let has = |name: &String| planned.open.contains(name) || planned.labels.contains_key(name);
        planned.world == self.world && planned.fits(&self.measure, &self.labels) && self.named.iter().all(has)
    }
}

/// What the pictures and tables of a plan show.
pub(crate) struct Shown(Vec<Selection>);

impl Shown {
    pub(crate) fn of(plan: &Plan) -> Shown {
        let pictures = plan.pictures.iter().flat_map(of_picture);
        Shown(pictures.chain(of_tables(plan)).chain(of_grids(plan)).collect())
    }

    /// Whether one of these measurements may be among them.
    pub(crate) fn has_any(&self, planned: &[Planned]) -> bool {
        let is_shown = |one: &Planned| self.0.iter().any(|selection| selection.may_be(one));
        planned.iter().any(is_shown)
    }
}

fn of_picture(picture: &Picture) -> Vec<Selection> {
    let arrived = picture.ladder.as_ref().map(|ladder| &ladder.arrived);
    let measures = [
        Some(&picture.measure),
        picture.from.as_ref(),
        picture.holds.as_ref(),
        arrived,
    ];
    let named: Vec<String> = Some(&picture.x)
        .filter(|x| !x.is_empty())
        .into_iter()
        .cloned()
        .collect();
    let mut all = Vec::new();
    for &world in &picture.worlds {
        let mut only = picture.only.clone();
        only.extend(picture.beside.get(&world).cloned().unwrap_or_default());
        let of_box = |labels: &Labels| -> Labels { only.clone().into_iter().chain(labels.clone()).collect() };
        let boxes = picture.blocks.iter().flat_map(|block| &block.of);
        let each: Vec<Labels> = match picture.blocks.is_empty() {
            true => vec![only.clone()],
            false => boxes.map(of_box).collect(),
        };
        for labels in each {
            all.extend(measures.into_iter().flatten().map(|measure| Selection {
                world,
                measure: measure.clone(),
                labels: labels.clone(),
                named: named.clone(),
            }));
        }
    }
    all
}

/// Our numbers beside those that the document printed.
fn of_tables(plan: &Plan) -> Vec<Selection> {
    let mut all = Vec::new();
    for table in &plan.tables {
        // `Study::new` refuses tables that cannot be read.
        for cell in cells(table, &plan.words).unwrap_or_default() {
            for world in World::ALL.into_iter().filter(|world| *world != World::Published) {
                let mut labels = cell.labels.clone();
                labels.extend(table.beside.get(&world).cloned().unwrap_or_default());
                all.push(Selection {
                    world,
                    measure: cell.measure.clone(),
                    labels,
                    named: Vec::new(),
                });
            }
        }
    }
    all
}

fn of_grids(plan: &Plan) -> Vec<Selection> {
    let mut all = Vec::new();
    for grid in &plan.grids {
        let named: Vec<String> = grid.rows.iter().chain([&grid.columns]).cloned().collect();
        all.extend(grid.measures.iter().map(|measure| Selection {
            world: World::Measured,
            measure: measure.clone(),
            labels: grid.only.clone(),
            named: named.clone(),
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{EMBEDDED, Size};

    /// Names of the runs whose numbers the plan shows.
    fn shown(plan: &Plan) -> Vec<String> {
        let shown = Shown::of(plan);
        plan.runs(Size::Full)
            .into_iter()
            .filter(|run| shown.has_any(&plan.planned_of(run)))
            .map(|run| run.id)
            .collect()
    }

    #[test]
    fn a_run_is_shown_if_a_picture_or_a_table_may_select_one_of_its_numbers() {
        let arm = |name: &str, rest: &str, read: &str| {
            format!(
                "[[arm]]\nname = '{name}'\nrepetitions = {{ quick = 1, full = 1, paper = 1 }}\n\
                 seconds = {{ quick = 1, full = 1, paper = 1 }}\nrun = [['say', '{{kind}}']]\n{rest}\nread = [{{ {read} }}]\n"
            )
        };
        let measured = "world = 'measured'\nlabels = { kind = 'a', x = '1' }";
        let both = "world = 'measured'\nlabels = { x = '1' }\nover = { kind = ['a', 'b'] }";
        let text = [
            "document = '0'\ntitle = 't'\nquestion = 'q'\nprediction = 'p'\n",
            &arm("drawn", both, "values = { v = '/v' }"),
            // A label that only the output has may have any value.
            &arm(
                "read",
                "world = 'measured'",
                "labels = { kind = '/kind', x = '/x' }, values = { v = '/v' }",
            ),
            &arm("lower", measured, "values = { w = '/w' }"),
            &arm("boxed", measured, "set = { part = 'p' }, values = { b = '/b' }"),
            &arm("listed", measured, "values = { g = '/g' }"),
            &arm("other-box", measured, "set = { part = 'q' }, values = { b = '/b' }"),
            &arm("other-measure", measured, "values = { judged = '/v' }"),
            &arm(
                "other-world",
                "world = 'simulated'\nlabels = { kind = 'a', x = '1' }",
                "values = { v = '/v' }",
            ),
            &arm(
                "without-x",
                "world = 'measured'\nlabels = { kind = 'a' }",
                "values = { v = '/v', g = '/g' }",
            ),
            "[[picture]]\ntitle = 'P'\nworlds = ['measured']\nmeasure = 'v'\nfrom = 'w'\nx = 'x'\nseries = 'kind'\n\
             only = { kind = 'a' }\n",
            "[[picture]]\ntitle = 'B'\nworlds = ['measured']\nmeasure = 'b'\nonly = { kind = 'a' }\n\
             [[picture.box]]\nname = 'one'\nat = [0, 0]\nof = [{ part = 'p' }]\n",
            "[[grid]]\ntitle = 'G'\nmeasures = ['g']\nrows = ['x']\ncolumns = 'kind'\n",
        ]
        .concat();
        let plan = Plan::parse("p.toml", &text).expect("a plan");
        assert_eq!(shown(&plan), ["drawn-kind=a", "read", "lower", "boxed", "listed"]);
    }

    /// Table 1 and the figures of document 001: none of them shows a counterfactual.
    #[test]
    fn counterfactuals_are_not_shown() {
        let (_, text) = EMBEDDED[1];
        let plan = Plan::parse("heidemann", text).expect("a plan");
        assert_eq!(
            shown(&plan),
            [
                "then",
                "then-segments",
                "now-http",
                "now-p-http",
                "now-first-fix",
                "now-both-fixes",
                "aged-http",
                "aged-p-http",
                "aged-first-fix",
                "aged-both-fixes",
            ]
        );
    }
}
