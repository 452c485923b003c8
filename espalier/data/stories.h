// Short children's stories from a grammar of our own, of the kind of TinyStories (Eldan and Li
// 2023): about a hundred words, one small problem, its solution, and what was learnt.
//
// The grammar's texts (story_plots.cc) are templates. Their notation:
//   [a|b|c]   one of the alternatives, which may hold slots but no brackets
//   {slot}    a word bound once a story: hero, friend, place, ...; a capital first letter in the
//             slot's name makes the word begin with one
//   !         before a plot: the friend is met there, so the opening must not name one
//   a~        "a" or "an", by the letter that follows
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace espalier {

// Story `index` of a seed: two or three paragraphs, about 60 to 150 words, plain ASCII, the same
// on every platform.
std::string make_story(uint64_t seed, uint64_t index);

// The first `count` stories of a seed, each followed by the line "<|endoftext|>".
std::string make_stories(int64_t count, uint64_t seed);

// Parts of the grammar, defined in story_plots.cc.
namespace story_grammar {
std::span<const std::string_view> openings();
std::span<const std::string_view> plots();
std::span<const std::string_view> endings();
}  // namespace story_grammar

}  // namespace espalier
