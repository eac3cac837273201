#!/bin/sh
# Draw the pictures of docs/reference/encodings.md and its pages again. Run it in the root of the repository.
set -e
ndformer show_encoding NoPE --out docs/images/NoPE.png
ndformer show_encoding Sincos --out docs/images/Sincos.png
ndformer show_encoding LearnableSincos --out docs/images/LearnableSincos.png
ndformer show_encoding LearnableAbsolute --out docs/images/LearnableAbsolute.png
ndformer show_encoding LearnableFourier --out docs/images/LearnableFourier.png
ndformer show_encoding LaPE --out docs/images/LaPE.png
ndformer show_encoding LearnableMLP --out docs/images/LearnableMLP.png
ndformer show_encoding ObjectSincos --out docs/images/ObjectSincos.png
ndformer show_encoding PEMixer --out docs/images/PEMixer.png
ndformer show_encoding CPE --out docs/images/CPE.png
ndformer show_encoding AxialRoPE --out docs/images/AxialRoPE.png
ndformer show_encoding RoPEMixed --out docs/images/RoPEMixed.png
ndformer show_encoding RadialBias --out docs/images/RadialBias.png
ndformer show_encoding FIRE --out docs/images/FIRE.png
ndformer show_encoding LogCPB --out docs/images/LogCPB.png
ndformer show_encoding RotaryND directions=golden --out docs/images/RotaryND.png
ndformer show_encoding STRING --out docs/images/STRING.png
ndformer show_encoding LieRE --out docs/images/LieRE.png
ndformer show_encoding ComRoPE --out docs/images/ComRoPE.png
ndformer show_encoding PoPE --out docs/images/PoPE.png
ndformer show_encoding GRAPE --out docs/images/GRAPE.png
ndformer show_encoding GTA cameras=0.5 --out docs/images/GTA.png
ndformer show_encoding PRoPE --out docs/images/PRoPE.png
ndformer show_encoding ALiBi --out docs/images/ALiBi.png
ndformer show_encoding DirectionalRPE --out docs/images/DirectionalRPE.png
ndformer show_encoding LookHere --heads 8 --out docs/images/LookHere.png
ndformer show_encoding RelativeBias --out docs/images/RelativeBias.png
ndformer show_encoding Relative --out docs/images/Relative.png
ndformer show_encoding CoPE --out docs/images/CoPE.png
ndformer show_encoding SaPE2 --out docs/images/SaPE2.png
ndformer show_encoding PaPE m=8 --out docs/images/PaPE.png
ndformer show_encoding PaPERI --out docs/images/PaPERI.png
ndformer show_encoding PaPECompact --out docs/images/PaPECompact.png
ndformer show_encoding PaPEDirectional --out docs/images/PaPEDirectional.png
ndformer show_encoding Polynomial m=8 position_scale=0.2 --out docs/images/Polynomial.png
ndformer show_encoding AxialRoPE --dims 1 --compare periods=[None] --compare periods=[65] --out docs/images/circles.png
ndformer show_encoding PaPE --compare m=2 --compare m=8 --compare m=50 --compare m=50 init_radius=3 --out docs/images/init_radius.png
ndformer show_encoding RoPEMixed --compare preset=original --compare preset=pape_repo --out docs/images/presets.png
