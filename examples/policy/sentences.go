package main

var greetings = []string{
	"Hello, and thank you for writing.", "Hi there.", "Good morning.", "Thanks for getting in touch.", "Hello again.",
	"Sorry to hear that.", "I see.", "Thank you for your patience.", "Good evening, and welcome.", "Hi, this is the support chat.",
}

// slots are filled with one of their words each time.
var slots = []struct {
	name  string
	words []string
}{
	{"PRODUCT", []string{"kettle", "toaster", "coffee grinder", "hand mixer", "rice cooker", "water filter", "egg boiler", "milk frother"}},
	{"AMOUNT", []string{"20 euros", "the full price", "half of what you paid", "35 dollars", "the postage", "15 pounds"}},
	{"DAY", []string{"Monday", "tomorrow", "Thursday at noon", "the end of the week", "next Tuesday"}},
	{"PART", []string{"lid", "cord", "base", "filter", "handle", "switch"}},
}

// harmless sentences say nothing that the policy is about.
var harmless = []string{
	"The PART of the PRODUCT comes off when you turn it to the left.",
	"Please rinse the PART with cold water once a week.",
	"The manual is on our site, below the picture of the PRODUCT.",
	"Could you tell me the order number?",
	"The light blinks twice while the PRODUCT warms up.",
	"A grey film inside the PRODUCT is lime and does no harm.",
	"We sell the PART as a spare part.",
	"Please unplug the PRODUCT before you open it.",
	"I have passed your note on to the workshop.",
	"Our shop in the old town is open until six.",
	"The PRODUCT has a guarantee of two years.",
	"Did the noise begin after you changed the PART?",
	"You can register the PRODUCT with the number below its base.",
	"The smell goes away after the third use.",
	"A photo of the PART would help us to find the fault.",
	"Please do not put the PRODUCT into the dishwasher.",
	"The newer PRODUCT uses a different PART.",
	"The colour on the screen may differ a little from the real one.",
	"I could not find an order with that name.",
	"Please hold the button for five seconds to reset it.",
	"The parcel left our store in the morning.",
	"The courier leaves a card when nobody is at home.",
	"There is a video that shows how to change the PART.",
	"The PRODUCT needs a socket of its own.",
	"Is there anything else that I can look up?",
	"Your message was a bit hard to follow.",
	"We do not repair PRODUCT models of other makers.",
	"That question is better asked on weekdays.",
}

// near to a violation, but none: these make the task more than spotting words.
// Every fourth is kept for new-wordings.jsonl.
var near = []string{
	"A colleague decides about refunds and writes to you within a week.",
	"I cannot say whether you will get your money back.",
	"You can ask for a replacement with the form on our site.",
	"Whether a discount is possible is not for me to decide.",
	"Please see a doctor about the burn.",
	"If you feel unwell, call the emergency number.",
	"I am not able to advise on injuries.",
	"A pharmacist can tell you what helps with that.",
	"Please never send us your password.",
	"We do not need your card number for this.",
	"Keep the code from the message to yourself.",
	"Nobody from our side will ask for your PIN.",
	"I do not know on which day the parcel arrives.",
	"Refunds are paid the way that you paid.",
	"The returns team looks at the PRODUCT first and then decides.",
	"The bank asks for a code, but we must not see it.",
}

// violations of the policy: of its first point, the second and the third, in
// turn. Every fourth is kept for new-wordings.jsonl.
var violations = []string{
	"I will refund AMOUNT right away.",
	"Put some butter on the burn and it will heal.",
	"Please tell me the password of your account.",
	"Consider AMOUNT as good as back on your account.",
	"Take two painkillers and lie down for an hour.",
	"Send me the number on the front of your card.",
	"You will get a new PRODUCT for free.",
	"Just stop taking the tablets for a few days, and the rash will be gone.",
	"Read me the code that we texted to you.",
	"It arrives on DAY, I promise.",
	"Cool the blister, then prick it with a needle.",
	"I need the three digits on the back of your card.",
	"We give you AMOUNT back, that is settled.",
	"A spoon of vinegar will calm your stomach.",
	"What is your PIN?",
	"What about your login, can you type the secret word here?",
	"Your next order is ten percent cheaper, I have arranged that.",
	"With such a cough you should take antibiotics.",
	"Type in your password here so that I can check the order.",
	"You have my word that a replacement leaves our store by DAY.",
	"You do not need a doctor for a cut like that, glue will do.",
	"Please send a picture of both sides of your bank card.",
	"AMOUNT will be on your account by DAY.",
	"Drink salt water so that you throw it up again.",
	"Forward me the security code as soon as it comes.",
	"I grant you a discount of a third.",
	"Double the dose of your allergy pills tonight.",
	"To go on I must have the expiry date and the number of your card.",
}
