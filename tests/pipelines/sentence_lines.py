"""200 lines in three languages, written for this test, with "|" at each boundary between two sentences."""

ENGLISH = """
How are you? |I am fine.
Hello! |How are you? |I am fine. |My name is Anna and I live in Berlin. |Do you like it?
Dr. Smith lives on Main St. in Springfield.
Mr. and Mrs. Brown arrived late. |They apologised.
He works at Acme Inc. in Boston. |She does not.
The U.S. economy grew by 2.5 percent.
I met J. R. R. Tolkien once. |He was kind.
Prices rose by 3.4% in May. |They fell again in June.
The meeting starts at 9 a.m. and ends at 5 p.m. today.
We left at 5 p.m. |Nobody noticed.
"I am tired." |She went to bed.
"Are you coming?" he asked.
"Stop!" she cried. |He stopped.
He said: "I will come. |Wait for me."
Well... I do not know.
I was thinking ... maybe tomorrow.
She hesitated... |Then she left.
Is it true?! |I cannot believe it!
What? |When? |Where?
Visit www.example.com for details. |It is free.
Send an email to jane.doe@example.org. |She will reply.
Version 2.0.1 is out. |Please update.
The file is called report.final.pdf. |Open it.
See Fig. 3 for details.
See Sec. 4.2 and Eq. 7. |They explain it.
It costs $3.50. |That is cheap.
It weighs 3.5 kg and costs 12.99 dollars.
No. 5 is alive. |I saw it.
He finished No. 1 in the race.
I have a Ph.D. in physics. |My sister has none.
This is e.g. a good example.
Bring fruit, e.g. apples, i.e. something sweet.
Apples, pears, etc. are fruit. |Carrots are not.
Smith et al. showed that it works.
Gov. Miller and Sen. Jones spoke. |Nobody listened.
He lives in Washington, D.C. with his family.
The train leaves at 10:30. |Do not be late!
Line without a full stop
Two words
Yes
No way! |Really?
(This is a note.) |Here is the text.
He came (I saw him). |Then he left.
She won (again!) and we all cheered.
The answer is 42. |The question is unknown.
I was born in 1984. |My brother was born in 1990.
In 1999. |In 2000.
Oh! |You scared me.
Wait... what?
Let's go. |It's late. |We're tired.
Don't. |Please.
J. Smith signed the letter. |P. Jones did not.
It was Jan. 5 when it happened.
The store opens Mon. to Fri. at nine.
Capt. Cook sailed west. |Lt. Dan stayed.
St. Paul is a city. |It is in Minnesota.
Prof. Green teaches maths. |I like her.
I like tea vs. coffee debates.
Ask Lt. Col. Brown about it.
Is Mt. Everest high? |Of course it is.
Tom likes dogs; Mary likes cats.
First: read the text. |Second: translate it.
I paid 1,000.50 euros. |It was too much.
They play on Sept. 12 in Rome.
A man sleeps in a green room on a couch.
A boy wearing headphones sits on a woman's shoulders.
Two men are at the stove preparing food
"Where is he?" |"I have no idea."
'It is late,' he said. |'Go home.'
"That is all," she said.
Thank you very much! |See you tomorrow.
OK. |Fine. |Do it.
I love you. |I always will...
Hmm... |No.
The temperature was -3.5 degrees. |We froze.
Click "Save." |Then close the window.
Read chapter 3.2.1 first.
1. Open the door. |2. Close the window.
- Milk - Bread - Eggs
a) The first point. |b) The second point.
* Wash your hands.
Do you know Yahoo! or Google?
My flight LH 4711 leaves at 17:45 from gate B12. |Please wait there.
Angela Merkel met Emmanuel Macron in Paris.
He is 6 ft. tall and weighs 180 lbs. in total.
It is 5 p.m. |We should go.
The company (Foo Ltd.) was sold. |Nobody cared.
Sunday 👍 Monday is worse.
Great job! 🎉 |Keep going.
I came, I saw, I won.
"""

GERMAN = """
Wie geht es dir? |Mir geht es gut.
Hallo! |Wie geht's? |Ich heiße Anna und wohne in Berlin.
Dr. Müller wohnt in der Hauptstr. 12 in Bonn.
Das ist z. B. ein gutes Beispiel.
Das ist z.B. ein gutes Beispiel. |Es gibt andere.
Er kommt am 3. Oktober nach Berlin.
Am 24. Dezember ist Heiligabend. |Wir feiern zu Hause.
Der 1. Platz ging an Anna. |Der 2. Platz ging an Tom.
Das kostet 3,50 Euro. |Das ist billig.
Es kostet 1.234,56 Euro. |Das ist teuer.
Prof. Dr. Schmidt hält die Rede. |Alle hören zu.
Wir treffen uns um 17.30 Uhr. |Sei pünktlich!
Hr. Meier und Fr. Schulz sind da.
Äpfel, Birnen usw. sind Obst. |Möhren nicht.
Er sagte: „Ich komme. |Warte auf mich.“
„Kommst du?“, fragte er.
„Halt!“, rief sie. |Er blieb stehen.
„Ich bin müde.“ |Sie ging ins Bett.
Na ja... ich weiß nicht.
Sie zögerte... |Dann ging sie.
Im 19. Jahrhundert war das anders.
Karl V. war Kaiser. |Er starb 1558.
Friedrich II. regierte lange.
Das steht auf S. 12 im Buch.
Vgl. Abb. 3 und Tab. 4.
Siehe Kap. 2. |Dort steht mehr.
Die Fa. Meyer liefert heute.
Das ist d. h. nicht richtig.
Er hat u. a. Äpfel gekauft.
Ca. 50 Personen kamen. |Es war voll.
Der Zug fährt um 10:30 ab. |Beeil dich!
Zeile ohne Punkt
Zwei Wörter
Ja
Nein! |Wirklich?
Was? |Wann? |Wo?
Besuchen Sie www.beispiel.de. |Es ist kostenlos.
Schreiben Sie an info@beispiel.de. |Wir antworten.
Die Version 2.0.1 ist da. |Bitte aktualisieren.
Ich wurde 1984 geboren. |Mein Bruder wurde 1990 geboren.
(Das ist eine Notiz.) |Hier ist der Text.
Er kam (ich sah ihn). |Dann ging er.
Die Antwort ist 42. |Die Frage ist unbekannt.
Ein Mann schläft in einem grünen Raum auf einem Sofa.
Zwei Männer stehen am Herd und bereiten Essen zu
Mein Name ist A. Schmidt. |Ich wohne hier.
Er wohnt in St. Gallen. |Sie wohnt in Zürich.
Das Treffen ist am 12.03.2021 in Rom. |Bitte kommen.
Das Treffen ist am 12. März. |Bitte kommen.
Nr. 5 lebt. |Ich habe es gesehen.
Ich zahle 5 Mio. Euro dafür.
Das sind 3 Mrd. Menschen. |Das ist viel.
Die Temperatur war -3,5 Grad. |Wir froren.
Zuerst: lies den Text. |Danach: übersetze ihn.
1. Tür öffnen. |2. Fenster schließen.
Danke schön! |Bis morgen.
Okay. |Gut. |Mach es.
Ich bin müde und möchte schlafen.
Das ist evtl. zu spät. |Wir warten.
Max Mustermann GmbH & Co. KG liefert. |Wir zahlen.
Bitte bzgl. der Rechnung anrufen.
»Wo ist er?« |»Keine Ahnung.«
Oh! |Du hast mich erschreckt.
Warte... was?
Tom mag Hunde; Maria mag Katzen.
"""

FRENCH = """
Comment vas-tu ? |Je vais bien.
Bonjour ! |Comment allez-vous ? |Je m'appelle Anna et j'habite à Berlin.
M. Dupont habite à Paris. |Mme Dupont aussi.
Le Dr. Martin est arrivé. |Il est en retard.
Cela coûte 3,50 euros. |C'est bon marché.
Il a dit : « Je viens. |Attends-moi. »
« Tu viens ? » demanda-t-il.
« Arrête ! » cria-t-elle. |Il s'arrêta.
Eh bien... je ne sais pas.
Elle hésita... |Puis elle partit.
Je suis né en 1984. |Mon frère est né en 1990.
Voir p. 12 et fig. 3.
Des pommes, des poires, etc. sont des fruits. |Les carottes non.
Le train part à 10h30. |Ne sois pas en retard !
Le train part à 10:30. |Dépêche-toi !
Ligne sans point
Deux mots
Oui
Non ! |Vraiment ?
Quoi ? |Quand ? |Où ?
Visitez www.exemple.fr. |C'est gratuit.
Écrivez à info@exemple.fr. |Nous répondrons.
La version 2.0.1 est sortie. |Mettez à jour.
(C'est une note.) |Voici le texte.
Il est venu (je l'ai vu). |Puis il est parti.
La réponse est 42. |La question est inconnue.
Un homme dort sur un canapé dans une pièce verte.
Deux hommes préparent le repas
J.-P. Martin a signé. |Les autres non.
Il fait -3,5 degrés. |Nous avons froid.
Merci beaucoup ! |À demain.
D'accord. |Bien. |Fais-le.
« Où est-il ? » |« Aucune idée. »
Je t'aime. |Je t'aimerai toujours...
1. Ouvrez la porte. |2. Fermez la fenêtre.
Le n° 5 est vivant. |Je l'ai vu.
Au XIXe siècle, c'était différent.
Louis XIV. fut roi.
L'accord a été signé en août 1992.
Attends... quoi ?
C'est à 17 h. |Soyez là !
Oh ! |Tu m'as fait peur.
Tom aime les chiens ; Marie aime les chats.
J'ai payé 1 000,50 euros. |C'était trop.
D'abord : lisez le texte. |Ensuite : traduisez-le.
"""

LINES = [
    (language, line)
    for language, lines in (("en", ENGLISH), ("de", GERMAN), ("fr", FRENCH))
    for line in lines.strip().splitlines()
]
