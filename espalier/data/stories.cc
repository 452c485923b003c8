#include "espalier/data/stories.h"

#include <array>
#include <cctype>
#include <map>

#include "espalier/base/error.h"
#include "espalier/data/permutation.h"
#include "espalier/data/source_text.h"

namespace espalier {
namespace {

using Words = std::span<const std::string_view>;

constexpr std::string_view kGirls[] = {"Lily",  "Mia",  "Sara",  "Anna",  "Lucy",  "Amy",  "Emma",
                                       "Zoe",   "Ella", "Rosie", "Sue",   "Daisy", "Ruby", "Jane",
                                       "Kitty", "Nina", "Molly", "Grace", "Bella", "Lola"};
constexpr std::string_view kBoys[] = {"Tim",  "Tom",   "Ben",  "Max",  "Jack",  "Sam",  "Leo",
                                      "Bob",  "Billy", "Fred", "Joe",  "Timmy", "Spot", "Luke",
                                      "Mark", "Adam",  "Finn", "Toby", "Oscar", "Danny"};
constexpr std::string_view kAnimals[] = {"rabbit", "bear", "fox",   "dog",  "cat",    "mouse",
                                         "duck",   "frog", "puppy", "bird", "turtle", "squirrel"};
constexpr std::string_view kTraits[] = {"little", "kind",    "happy", "brave", "funny",
                                        "clever", "curious", "small", "young", "friendly"};
constexpr std::string_view kHobbies[] = {
    "play in the park",   "run in the sun",  "sing songs",           "draw pictures",
    "play with friends",  "look for bugs",   "climb trees",          "read books",
    "help other people",  "jump in puddles", "dance in the kitchen", "count the stars",
    "play hide and seek", "pick flowers",    "ride a bike",          "build with blocks"};
constexpr std::string_view kToys[] = {"ball",   "kite", "doll", "car",   "book",  "hat",
                                      "drum",   "boat", "bear", "truck", "train", "robot",
                                      "puzzle", "bell", "cup",  "scarf"};
constexpr std::string_view kSizes[] = {"big", "little", "shiny", "soft", "old",
                                       "new", "pretty", "round", "tiny", "special"};
constexpr std::string_view kColors[] = {"red",    "blue",  "green",  "yellow",
                                        "purple", "white", "orange", "pink"};
constexpr std::string_view kPlaces[] = {"park",   "garden",  "forest", "yard",       "field",
                                        "meadow", "village", "valley", "playground", "orchard"};
constexpr std::string_view kSpots[] = {"tree",    "bench", "bush",  "big rock", "fence",
                                       "old log", "gate",  "slide", "wall",     "cart"};
constexpr std::string_view kWeathers[] = {"sunny", "warm",   "windy", "bright",
                                          "cold",  "cloudy", "nice",  "quiet"};
constexpr std::string_view kFoods[] = {"cake", "soup", "bread", "pie", "pizza", "jam", "salad"};
constexpr std::string_view kFruits[] = {"apples",  "berries", "pears",   "plums",
                                        "cookies", "carrots", "oranges", "cherries"};
constexpr std::string_view kFears[] = {"the dark",    "the water",     "loud thunder",
                                       "high places", "the big slide", "the deep pond",
                                       "big dogs"};
constexpr std::string_view kSkills[] = {"swim",       "ride a bike", "whistle",
                                        "tie a knot", "skate",       "play the drum",
                                        "jump rope",  "fly a kite",  "swing high"};
constexpr std::string_view kGrowns[] = {"mom", "dad", "grandma", "grandpa"};

// SplitMix64 as a stream of choices.
class Choices {
 public:
  explicit Choices(uint64_t seed) : state_(seed) {}
  // Below n, by the high half of a product: no platform's own distribution.
  size_t below(size_t n) {
    state_ = mix64(state_);
    return static_cast<size_t>(((state_ >> 32) * n) >> 32);
  }
  std::string_view of(Words words) { return words[below(words.size())]; }

 private:
  uint64_t state_;
};

using Slots = std::map<std::string, std::string, std::less<>>;

void bind_pronouns(Slots& slots, const std::string& prefix, bool girl) {
  slots[prefix + "he"] = girl ? "she" : "he";
  slots[prefix + "him"] = girl ? "her" : "him";
  slots[prefix + "his"] = girl ? "her" : "his";
  slots[prefix + "self"] = girl ? "herself" : "himself";
}

Slots bind_slots(Choices& choices) {
  Slots slots;
  const bool girl = choices.below(2) == 0;
  const bool friend_girl = choices.below(2) == 0;
  slots["hero"] = choices.of(girl ? Words(kGirls) : Words(kBoys));
  do {
    slots["friend"] = choices.of(friend_girl ? Words(kGirls) : Words(kBoys));
  } while (slots["friend"] == slots["hero"]);
  bind_pronouns(slots, "", girl);
  bind_pronouns(slots, "f", friend_girl);
  // Two heroes of three are children, as most are in TinyStories.
  slots["kid"] = choices.below(3) > 0 ? (girl ? "girl" : "boy") : choices.of(kAnimals);
  slots["animal"] = choices.of(kAnimals);
  const size_t grown = choices.below(std::size(kGrowns));
  slots["grown"] = kGrowns[grown];
  bind_pronouns(slots, "g", grown % 2 == 0);
  slots["trait"] = choices.of(kTraits);
  slots["hobby"] = choices.of(kHobbies);
  slots["toy"] = choices.of(kToys);
  slots["size"] = choices.of(kSizes);
  slots["color"] = choices.of(kColors);
  slots["place"] = choices.of(kPlaces);
  const size_t spot = choices.below(std::size(kSpots));
  slots["spot"] = kSpots[spot];
  slots["spot2"] = kSpots[(spot + 1 + choices.below(std::size(kSpots) - 1)) % std::size(kSpots)];
  slots["weather"] = choices.of(kWeathers);
  slots["food"] = choices.of(kFoods);
  slots["fruits"] = choices.of(kFruits);
  slots["fear"] = choices.of(kFears);
  slots["skill"] = choices.of(kSkills);
  return slots;
}

std::string_view pick_alternative(std::string_view inside, Choices& choices) {
  size_t count = 1;
  for (const char c : inside) count += c == '|';
  for (size_t skip = choices.below(count); skip > 0; --skip) {
    inside.remove_prefix(inside.find('|') + 1);
  }
  return inside.substr(0, inside.find('|'));
}

std::string slot_text(const Slots& slots, std::string name) {
  const bool capital = std::isupper(static_cast<unsigned char>(name[0])) != 0;
  if (capital) name[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[0])));
  const auto found = slots.find(name);
  if (found == slots.end()) throw Error("the story grammar has no slot {" + name + "}");
  std::string word = found->second;
  if (capital) word[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(word[0])));
  return word;
}

void expand(std::string_view text, const Slots& slots, Choices& choices, std::string& out) {
  while (!text.empty()) {
    const size_t at = text.find_first_of("[{");
    out += text.substr(0, at);
    if (at == std::string_view::npos) return;
    const size_t end = text.find(text[at] == '[' ? ']' : '}', at);
    const std::string_view inside = text.substr(at + 1, end - at - 1);
    if (text[at] == '[') {
      expand(pick_alternative(inside, choices), slots, choices, out);
    } else {
      out += slot_text(slots, std::string(inside));
    }
    text.remove_prefix(end + 1);
  }
}

// Replaces "a~ word" by "a word" or "an word".
void resolve_articles(std::string& text) {
  constexpr std::string_view kVowels = "aeiou";
  for (size_t at = text.find('~'); at != std::string::npos; at = text.find('~', at)) {
    const bool vowel = kVowels.find(text[at + 2]) != std::string_view::npos;
    text.replace(at, 1, vowel ? "n" : "");
  }
}

}  // namespace

std::string make_story(uint64_t seed, uint64_t index) {
  Choices choices(mix64(mix64(seed) ^ index));
  const Slots slots = bind_slots(choices);
  const auto names_friend = [](std::string_view text) {
    return text.find("{friend}") != std::string_view::npos ||
           text.find("{Friend}") != std::string_view::npos;
  };
  std::string_view plot = choices.of(story_grammar::plots());
  const bool friend_is_new = plot.front() == '!';
  if (friend_is_new) plot.remove_prefix(1);
  std::string_view opening;
  do {
    opening = choices.of(story_grammar::openings());
  } while (friend_is_new && names_friend(opening));
  std::string_view ending;
  do {
    ending = choices.of(story_grammar::endings());
  } while (names_friend(ending) && !names_friend(opening) && !names_friend(plot));
  std::string out;
  expand(opening, slots, choices, out);
  out += ' ';
  expand(plot, slots, choices, out);
  out += ' ';
  expand(ending, slots, choices, out);
  resolve_articles(out);
  return out;
}

std::string make_stories(int64_t count, uint64_t seed) {
  std::string out;
  for (int64_t i = 0; i < count; ++i) {
    out += make_story(seed, static_cast<uint64_t>(i));
    out += '\n';
    out += kStorySeparator;
    out += '\n';
  }
  return out;
}

}  // namespace espalier
