// The texts of the story grammar; their notation is in stories.h.
#include "espalier/data/stories.h"

namespace espalier::story_grammar {
namespace {

constexpr std::string_view kOpenings[] = {
    "Once upon a time, there was a~ {trait} {kid} named {hero}. {He} [loved|liked] to {hobby}.",
    "Once upon a time, there was a~ {trait} {kid} named {hero}. {Hero} lived near a~ "
    "[big|small|green] "
    "{place} with {his} {grown}. {He} [loved|liked] to {hobby}.",
    "Once upon a time, in a [small house|little town|quiet village], there lived a~ {trait} {kid} "
    "called {hero}. Every day, {he} liked to {hobby}.",
    "Once upon a time, a~ {trait} {kid} named {hero} had a [good|best|dear] friend named {friend}. "
    "They [loved|liked] to {hobby} together.",
    "One day, a~ {trait} {kid} named {hero} came to live near the {place} with {his} {grown}. {He} "
    "[loved|liked] to {hobby}.",
    "One day, {hero} and {friend} became friends in the {place}. {Hero} was a~ {trait} {kid} who "
    "loved "
    "to {hobby}.",
};

constexpr std::string_view kPlots[] = {
    // A toy is lost and found.
    R"({Hero} had a~ {size} {color} {toy}. It was {his} favorite thing in the [world|whole world]. [But one day|Then, one {weather} day], {he} could not find the {toy}. {He} looked [under the bed|behind the door|in the big box], but it was not there. {Hero} was [very sad|so sad] and began to cry.

"Why are you crying?" asked {friend}. "I lost my {toy}," said {hero}. "Do not worry. I will help you find it," said {friend}. They looked near the {spot} and behind the {spot2}. At last, {friend} saw something {color}. It was the {toy}! {Hero} [jumped with joy|smiled a big smile] and said, "Thank you, {friend}!")",

    // Two children learn to share.
    R"(One {weather} day, {hero} brought {his} {size} {color} {toy} to the {place}. {Friend} saw the {toy} and wanted to play with it too. "Can I play with your {toy}?" asked {friend}. "No, it is mine!" said {hero}. {Friend} felt [sad|hurt] and [walked away|sat down by the {spot}].

{Hero} played alone, but it was not [fun|much fun]. {He} looked at {friend} and [felt bad|felt sorry]. {Hero} went to {friend} and said, "I am sorry. Let us play with the {toy} together." {Friend} smiled. They took turns and [laughed a lot|had so much fun|played until the sun went down].)",

    // A fear is overcome.
    R"(But {hero} was [scared|afraid] of {fear}. When {his} friends laughed and played, {he} [hid behind the {spot}|stayed at home|just watched]. One {weather} day, {his} {grown} asked, "What is wrong, {hero}?" "I am scared of {fear}," said {hero}.

{His} {grown} took {his} hand and said, "It is okay to be scared. We can be brave together." So they went slowly, [one step at a time|one small step and then another]. {Hero} [closed {his} eyes|took a deep breath] and tried. It was not so bad! "I did it!" {he} shouted. {His} {grown} [hugged {him}|clapped and smiled].)",

    // A hurt animal gets help.
    R"(One {weather} day, {hero} was walking [in the {place}|through the {place}|near the {place}]. {He} heard a [small|soft|sad] sound near the {spot}. It was a~ little {animal} with a hurt leg. "Oh no! Poor {animal}," said {hero}. "I will help you."

{He} [gently picked up|carefully carried] the {animal} and took it home. {His} {grown} [put a bandage on the leg|washed the leg and made it clean]. Every day, {hero} gave the {animal} [food and water|warm milk|{fruits} and water]. Soon the {animal} was [strong|well] again. It ran around and around. "Now you can go home," said {hero}. But the {animal} [came back every day to play|stayed and became {his} friend].)",

    // Something breaks and the truth is told.
    R"(One day, {hero} was playing with a ball in the house. {His} {grown} had said, "Do not play with the ball inside." But {hero} did not listen. The ball flew up and hit a~ {size} {color} [cup|vase|lamp|plate]. Crash! It broke into [many|little|three] pieces. {Hero} was [scared|worried].

{He} wanted to hide, but {he} knew that it was not right. {He} went to {his} {grown} and said, "I broke it. I am very sorry." {His} {grown} was [quiet for a moment|a little sad]. Then {ghe} smiled and said, "Thank you for telling me the truth." They [cleaned up|picked up the pieces|fixed it] together.)",

    // A seed needs patience.
    R"(One {weather} day, {his} {grown} gave {him} a tiny seed. "If you take care of it, it will grow," said {his} {grown}. {Hero} put the seed in the ground near the {spot}. Every day, {he} gave it water. But nothing [happened|came up]. "Why does it not grow?" asked {hero}. "You must wait," said {his} {grown}.

{Hero} waited and waited. Then, one morning, {he} saw a small green leaf! The plant grew bigger and bigger. Soon it had [a~ {color} flower|many {color} flowers|lots of {fruits}]. {Hero} was so [proud|happy] that {he} [danced around it|ran to show {friend}].)",

    // Cooking together.
    R"(One day, {hero} wanted to make {food} for {his} {grown}. "Can you help me?" {he} asked {friend}. "Yes, I love {food}!" said {friend}. They [washed their hands|put on big hats|got a big bowl] and mixed everything. But {friend} put in too much [salt|sugar|pepper]. "Oh no, it tastes [bad|funny]!" said {hero}.

{Friend} was [sad|sorry], but {hero} said, "It is okay. We can try again." They worked [slowly|together|very carefully], and this time the {food} was [yummy|perfect|very good]. {His} {grown} took a big bite. "This is the best {food} ever!" {ghe} said. They all [laughed|smiled|ate until they were full].)",

    // Eating too much.
    R"(One day, {hero} found a [big basket|big bag|box] of {fruits} under the {spot}. They looked so [yummy|sweet|good]! {Friend} said, "Let us take them home and share with everyone." But {hero} was [hungry|greedy] and ate one, then two, then all of them. Soon {his} tummy began to hurt. "Ouch!" cried {hero}.

{His} {grown} [gave {him} some warm tea|put {him} to bed] and said, "You ate too many {fruits}." "I am sorry, {friend}," said {hero}. "Next time I will share." The next day, {hero} found more {fruits}, and {he} gave [some|the best ones|half of them] to {friend}. They tasted even better.)",

    // Practice makes it work.
    R"({Hero} wanted to learn to {skill}. {He} tried and tried, but {he} could not do it. "It is too hard!" {he} said. {Friend} came by and said, "I could not do it at first. You must [try every day|keep trying|not give up]."

So {hero} tried again. On the first day, it was very hard. On the next day, it was [a little easier|a bit better]. {His} {grown} watched and said, "Good job, {hero}!" Then, one {weather} day, {he} did it! {Hero} could {skill}! {He} was so [proud|happy] and [showed everyone in the {place}|told everyone|thanked {friend}].)",

    // Lost in the woods.
    R"(One {weather} day, {hero} saw a~ {color} butterfly in the {place}. "Wait for me!" {he} said and ran after it. {He} ran [past the {spot}|far away|over the hill] and did not look back. Soon {he} did not know where {he} was. {Hero} was lost and [scared|began to cry].

Then {he} met a~ {size} old {animal}. "Do not cry," said the {animal}. "I know the way. Follow me." They walked by the {spot2} and over a little bridge. At last, {hero} saw {his} house. {His} {grown} [ran to {him}|was waiting at the door] and gave {him} a big hug. "Thank you, kind {animal}!" said {hero}.)",

    // A noise at night.
    R"(One night, {hero} was in bed. {He} heard a [strange|loud|funny] noise. Tap, tap, tap! "Is it a monster?" {he} thought. {He} hid under the blanket and called {his} {grown}. "There is a noise!" said {hero}.

{His} {grown} turned on the light. They [looked under the bed|opened the door|went to the window] together. There sat a~ little {color} {animal}! It was [cold|wet|hungry] and wanted to come in. "It is not a monster at all," said {hero}, and {he} laughed. They gave the {animal} [some food|a warm blanket|some {fruits}], and everyone went to sleep.)",

    // A tower falls and is built again.
    R"(One day, {hero} and {friend} wanted to build a [tower|castle|house] out of {color} blocks. They put one block on top of another. It was very [tall|big]. Then a~ {animal} ran by and hit it. Boom! All the blocks fell down. {Friend} was [angry|sad] and said, "I do not want to play anymore."

But {hero} said, "We can build it again, and we can make it [better|even bigger|stronger]." {Friend} wiped {fhis} eyes and [smiled|nodded]. They worked together all [day|morning]. Even the {animal} helped! When it was done, it was the best one in the {place}. "We did it!" they said.)",

    // Someone new is shy.
    R"(!One day, {hero} saw someone new in the {place}. {Friend} sat alone by the {spot} and did not [talk|play|smile]. The other kids ran past {fhim}. {Hero} thought, "Maybe {fhe} is shy." So {he} went over and said, "Hi! I am {hero}. Do you want to play with my {size} {toy}?"

{Friend} looked up. "Yes, please," {fhe} said in a [small|soft|quiet] voice. They played with the {toy} all [day|afternoon]. {Friend} was very [funny|nice|good at games]. "I was [scared|sad], but now I am happy," said {friend}. {Hero} said, "You are my friend now.")",

    // Making a mess and cleaning up.
    R"(One {weather} day, {hero} took out all {his} toys. There was a~ {color} {toy}, a ball, and lots of blocks. Soon the room was a big mess. "Please clean up your room," said {his} {grown}. "I will do it later," said {hero}. Then {he} [stepped on a block|fell over the {toy}] and hurt {his} foot. "Ouch!"

{Friend} came in and said, "Let us clean up together. It can be a game!" They put the toys in the box and [sang a song|counted them one by one]. Soon the room was [clean|nice and clean]. {His} {grown} was [proud|happy] and gave them some {fruits}.)",

    // A present for someone.
    R"(It was {friend}'s birthday, and {hero} wanted to give {fhim} a gift. But {he} had no money. {Hero} was [sad|worried]. {His} {grown} said, "The best gift comes from the heart." {Hero} thought and thought. Then {he} had an idea!

{He} took some {color} paper and made a~ {size} [card|hat|kite|star]. {He} worked on it all [day|morning]. At the party, {friend} got many [big|shiny] gifts. {Hero} felt shy. But when {friend} saw what {hero} had made, {fhis} eyes [got big|were bright]. "I love it! It is the best gift of all," said {friend}, and gave {hero} a [big|warm] hug.)",

    // Rain spoils a plan.
    R"({Hero} and {friend} wanted to go to the {place}. They had a basket with {fruits} and a~ {size} {toy}. But then the sky became dark, and it began to rain. Splash! Splash! "Our day is [ruined|no fun now]," said {friend}. {Hero} looked out of the window and felt [sad|sad too].

Then {his} {grown} said, "Why not have a picnic inside?" They put a~ {color} blanket on the floor and ate the {fruits}. They [told stories|sang songs|played with the {toy}] and laughed. When the rain stopped, there was a big rainbow over the {place}. "This was the best day!" said {hero}.)",

    // A found thing goes back to its owner.
    R"(!One day, {hero} found a~ {size} {color} {toy} near the {spot}. It was very [pretty|nice]. "I want to keep it," {he} said. {His} {grown} asked, "What if someone is looking for it?" {Hero} thought about that. {He} [walked around|went around] the {place} and asked everyone, "Is this yours?"

At last, {he} met {friend}, who looked [very sad|worried]. "I lost my {toy}," said {friend}. "Is it {color}?" asked {hero}. "Yes, it is!" {Hero} gave the {toy} back. {Friend} was so happy that {fhe} [hugged {him}|jumped up and down]. "You are very [kind|nice]," said {friend}. "Let us play with it together.")",

    // A race is won by helping.
    R"(One {weather} day, there was a big race in the {place}. {Hero} wanted to win. "Ready, set, go!" said {his} {grown}. {Hero} ran [very fast|as fast as {he} could]. {Friend} was just behind {him}. Then {friend} [tripped|fell down] near the {spot} and hurt {fhis} knee.

{Hero} could see the end of the race. {He} could win! But {he} stopped and went back. "Are you okay?" asked {hero}. {He} helped {friend} stand up, and they walked to the end [together|hand in hand]. They came last, but everyone [clapped|cheered]. {His} {grown} said, "You did not win the race, but you [are a true friend|have a kind heart].")",
};

constexpr std::string_view kEndings[] = {
    "From that day on, {hero} and {friend} were best friends.",
    "From that day on, {hero} was always [kind|nice|good] to others.",
    "{Hero} learned that it is good to [help|share|be kind|be brave|keep trying].",
    "{Hero} was [very happy|so happy]. {He} knew that [friends|a kind heart] can make everything "
    "better.",
    "That night, {hero} went to bed with a [big|happy] smile.",
    "And they all lived happily ever after.",
    "{Hero} and {his} {grown} went home and told everyone about [the day|it]. The end.",
    "It was a [good|great|wonderful] day, and {hero} never forgot it.",
};

}  // namespace

std::span<const std::string_view> openings() { return kOpenings; }
std::span<const std::string_view> plots() { return kPlots; }
std::span<const std::string_view> endings() { return kEndings; }

}  // namespace espalier::story_grammar
