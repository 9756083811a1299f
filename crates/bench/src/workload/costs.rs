//! The costs of making values again, in microseconds for each object.
//!
//! GD-Wheel was measured with ten configurations of one value size and three of several sizes,
//! whose items fall into groups of costs taken from RUBiS and TPC-W (Li and Cox, "GD-Wheel: A
//! Cost-Aware Replacement Policy for Key-Value Stores", EuroSys 2015, tables 2 and 3). The paper
//! itself could not be consulted here. Its tables are known from a published simulator of caches,
//! whose workloads name GD-Wheel's paper as their source:
//!
//! | name | source | groups: share of the objects and range of the cost |
//! | --- | --- | --- |
//! | `gd-1` | second-hand | 80 % 10 to 30, 15 % 120 to 180, 5 % 350 to 450 |
//! | `gd-2` | second-hand | 20 % 10 to 30, 75 % 120 to 180, 5 % 350 to 450 |
//! | `gd-3` | second-hand | 50 % 10 to 30, 25 % 120 to 180, 25 % 350 to 450 |
//!
//! The paper's other figures are not known here. In their place are configurations of this tool,
//! each of which changes one property of `gd-1`; results with them are not results of the paper:
//!
//! | name | difference from `gd-1` |
//! | --- | --- |
//! | `own-same` | all cost the same: a policy that knows costs must lose nothing |
//! | `own-two` | two groups: 95 % cheap, 5 % costly |
//! | `own-rare` | costly objects are rare and very costly: 99 % cheap, 1 % 2000 to 4000 |
//! | `own-mild` | the costly cost twice as much as the cheap |
//! | `own-steep` | a factor of ten between neighbours |
//! | `own-even` | no groups: evenly from 10 to 450 |
//! | `own-inverse` | most are costly: 5, 15, 80 % |
//! | `own-sizes-any` | for mixed sizes: the cost does not depend on the size |
//! | `own-sizes-grow` | for mixed sizes: the largest values are the costly ones |
//! | `own-sizes-shrink` | for mixed sizes: the smallest values are the costly ones |
//!
//! The tables have no unit; here it is the microsecond. Within its range a cost is uniform. The
//! group follows from the object, or for the last two from the place of its size among all sizes;
//! sizes of record files are not drawn, so with them it follows from the object too.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The highest cost: an hour.
const COST_US_MAX: u32 = 3_600_000_000;

const LOW: (u32, u32) = (10, 30);
const MIDDLE: (u32, u32) = (120, 180);
const HIGH: (u32, u32) = (350, 450);

/// A share of the objects, and the range of their costs, both ends included.
type Group = (f64, (u32, u32));

const CONFIGURATIONS: &[(&str, &[Group], Relation)] = &[
    ("gd-1", &[(0.80, LOW), (0.15, MIDDLE), (0.05, HIGH)], Relation::None),
    ("gd-2", &[(0.20, LOW), (0.75, MIDDLE), (0.05, HIGH)], Relation::None),
    ("gd-3", &[(0.50, LOW), (0.25, MIDDLE), (0.25, HIGH)], Relation::None),
    ("own-same", &[(1.0, (20, 20))], Relation::None),
    ("own-two", &[(0.95, LOW), (0.05, HIGH)], Relation::None),
    ("own-rare", &[(0.99, LOW), (0.01, (2000, 4000))], Relation::None),
    ("own-mild", &[(0.80, LOW), (0.20, (20, 60))], Relation::None),
    ("own-steep", &[(0.80, LOW), (0.15, (100, 300)), (0.05, (1000, 3000))], Relation::None),
    ("own-even", &[(1.0, (10, 450))], Relation::None),
    ("own-inverse", &[(0.05, LOW), (0.15, MIDDLE), (0.80, HIGH)], Relation::None),
    ("own-sizes-any", &[(0.80, LOW), (0.15, MIDDLE), (0.05, HIGH)], Relation::None),
    ("own-sizes-grow", &[(0.80, LOW), (0.15, MIDDLE), (0.05, HIGH)], Relation::Grows),
    ("own-sizes-shrink", &[(0.80, LOW), (0.15, MIDDLE), (0.05, HIGH)], Relation::Shrinks),
];

/// How the group of an object's cost follows from its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    None,
    Grows,
    Shrinks,
}

/// The costs of a workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(into = "String")]
pub struct CostChoice {
    text: String,
    #[serde(skip)]
    costs: Costs,
}

/// The costs of objects.
#[derive(Debug, Clone, PartialEq)]
pub enum Costs {
    /// Unknown.
    None,
    /// Groups of objects with a range of costs each.
    Groups(Groups),
}

/// Groups of objects with a range of costs each.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    groups: Vec<Group>,
    relation: Relation,
}

impl FromStr for CostChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<CostChoice, String> {
        let groups = |groups, relation| Costs::Groups(Groups { groups, relation });
        let known = CONFIGURATIONS.iter().find(|(name, _, _)| *name == text);
        let costs = match (known, text.split_once(':')) {
            (Some((_, table, relation)), _) => groups(table.to_vec(), *relation),
            (_, Some(("fixed", cost))) => {
                let cost = number(cost)?;
                groups(vec![(1.0, (cost, cost))], Relation::None)
            }
            (_, Some(("groups", list))) => groups(parse(list)?, Relation::None),
            (_, None) if text == "none" => Costs::None,
            _ => {
                let names: Vec<&str> = CONFIGURATIONS.iter().map(|(name, ..)| *name).collect();
                let names = names.join(", ");
                let forms = "none, fixed:COST, groups:SHARE@LOW-HIGH,...";
                return Err(format!("{forms}, or one of {names}"));
            }
        };
        Ok(CostChoice { text: text.to_owned(), costs })
    }
}

impl fmt::Display for CostChoice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl From<CostChoice> for String {
    fn from(choice: CostChoice) -> String {
        choice.text
    }
}

impl CostChoice {
    /// Returns the costs.
    pub fn costs(&self) -> Costs {
        self.costs.clone()
    }
}

impl Costs {
    /// Returns the cost of an object, from places in `[0, 1)`: of its size among the sizes, of its
    /// group among the groups, and of its cost within the group.
    pub fn cost_us(&self, size_place: f64, group_place: f64, place: f64) -> u32 {
        let Costs::Groups(Groups { groups, relation }) = self else { return 0 };
        let group_place = match relation {
            Relation::None => group_place,
            Relation::Grows => size_place,
            Relation::Shrinks => 1.0 - size_place,
        };
        let mut end = 0.0;
        let group = groups.iter().find(|(share, _)| {
            end += share;
            group_place < end
        });
        let (_, (low, high)) = group.or(groups.last()).expect("there is a group");
        low + (f64::from(high - low + 1) * place) as u32
    }
}

/// Parses `SHARE@LOW-HIGH,...`.
fn parse(list: &str) -> Result<Vec<Group>, String> {
    let group = |text: &str| {
        let (share, range) = text.split_once('@').ok_or("a group is SHARE@LOW-HIGH")?;
        let (low, high) = range.split_once('-').ok_or("a group is SHARE@LOW-HIGH")?;
        let share = crate::arguments::share(share)?;
        let (low, high) = (number(low)?, number(high)?);
        if low > high {
            return Err(format!("from {low} to {high} is no range"));
        }
        Ok((share, (low, high)))
    };
    let groups: Vec<Group> = list.split(',').map(group).collect::<Result<_, String>>()?;
    let sum: f64 = groups.iter().map(|(share, _)| share).sum();
    if (sum - 1.0).abs() > 1e-6 {
        return Err(format!("the shares of the groups add up to {sum}"));
    }
    Ok(groups)
}

fn number(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(cost) if cost <= COST_US_MAX => Ok(cost),
        _ => Err(format!("`{text}` is no cost up to {COST_US_MAX} microseconds")),
    }
}

#[cfg(test)]
mod tests {
    use super::{CONFIGURATIONS, CostChoice, Costs};
    use crate::random::Random;

    fn costs(text: &str) -> Costs {
        let choice: CostChoice = text.parse().expect("it is a choice");
        assert_eq!(choice.to_string(), text);
        choice.costs()
    }

    #[test]
    fn every_configuration_has_its_shares_and_ranges() {
        for (name, groups, _) in CONFIGURATIONS {
            let costs = costs(name);
            let sum: f64 = groups.iter().map(|(share, _)| share).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{name}");
            let mut random = Random::new(1);
            let draws = 50_000;
            let mut counts = vec![0.0; groups.len()];
            let mut sums = vec![0.0; groups.len()];
            for _ in 0..draws {
                let cost = costs.cost_us(random.unit(), random.unit(), random.unit());
                let group =
                    groups.iter().position(|(_, (low, high))| (low..=high).contains(&&cost));
                let group = group.unwrap_or_else(|| panic!("{name}: {cost} is of no group"));
                counts[group] += 1.0;
                sums[group] += f64::from(cost);
            }
            if *name == "own-mild" {
                continue; // Its ranges overlap.
            }
            for ((share, (low, high)), (count, sum)) in groups.iter().zip(counts.iter().zip(&sums))
            {
                let deviation = (share * (1.0 - share) / f64::from(draws)).sqrt() + 1e-9;
                let found = count / f64::from(draws);
                assert!((found - share).abs() < 5.0 * deviation, "{name}: {found} for {share}");
                let middle = f64::from(low + high) / 2.0;
                assert!((sum / count / middle - 1.0).abs() < 0.05, "{name}: even within");
            }
        }
    }

    #[test]
    fn costs_can_follow_sizes() {
        let (grow, shrink) = (costs("own-sizes-grow"), costs("own-sizes-shrink"));
        assert!(grow.cost_us(0.99, 0.0, 0.5) > 300 && grow.cost_us(0.5, 0.99, 0.5) < 31);
        assert!(shrink.cost_us(0.99, 0.99, 0.5) < 31 && shrink.cost_us(0.01, 0.0, 0.5) > 300);
    }

    #[test]
    fn groups_of_ones_own() {
        assert_eq!(costs("none").cost_us(0.5, 0.5, 0.5), 0);
        assert_eq!(costs("fixed:7").cost_us(0.5, 0.5, 0.5), 7);
        let own = costs("groups:0.5@1-3,0.5@8-8");
        assert_eq!((own.cost_us(0.0, 0.0, 0.0), own.cost_us(0.0, 0.49, 0.999)), (1, 3));
        assert_eq!(own.cost_us(0.0, 0.5, 0.3), 8);
        for text in ["gd-4", "groups:", "groups:0.5@1-2", "groups:1@2-1", "groups:1@1", "fixed:x"] {
            assert!(text.parse::<CostChoice>().is_err(), "{text}");
        }
    }
}
