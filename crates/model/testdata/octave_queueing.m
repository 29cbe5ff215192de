pkg load queueing
% octave-cli octave_queueing.m 2>/dev/null > octave_queueing.csv, with the packages octave and octave-queueing of Debian.
printf("# octave-queueing %s on Octave %s; made by octave_queueing.m\n", pkg("describe","queueing"){1}.version, version());
% two queues and a delay
for N=[1 2 10 100 233 300 1000]
  [U R Q X] = qncsmva(N, [0.005 0.03 0.09], [1 1 1], [1 1 -1], 7);
  printf("two queues and a delay,%d,%.12g,%.12g\n", N, X(1), N/X(1)-7);
end
for N=[1 5 20 50 120]
  [U R Q X] = qncsmva(N, [0.005 0.04], [1 1], [1 4], 1);
  printf("a queue and four servers,%d,%.12g,%.12g\n", N, X(1), N/X(1)-1);
end
for N=[1 10 40]
  [U R Q X] = qncsmva(N, [0.02 0.02 0.02], [1 1 1], [1 1 1], 0);
  printf("three alike,%d,%.12g,%.12g\n", N, X(1), N/X(1));
end
for rho=[0.1 0.5 0.9 0.99]
  [U R] = qsmm1(rho/0.01, 1/0.01); printf("mm1,%.12g,%.12g,%.12g\n", rho, U, R);
  [U R] = qsmmm(8*rho/0.01, 1/0.01, 8); printf("mm8,%.12g,%.12g,%.12g\n", rho, U, R);
  [U R] = qsmg1(rho/0.01, 0.01, 5*0.01^2); printf("mg1 scv 4,%.12g,%.12g,%.12g\n", rho, U, R);
end
for N=[2 20 200]
  [Xl Xu Rl Ru] = qncsaba(N, [0.005 0.03], [1 1], [1 1], 7);
  printf("asymptotic,%d,%.12g,%.12g,%.12g,%.12g\n", N, Xl, Xu, Rl, Ru);
  [Xl Xu Rl Ru] = qncsbsb(N, [0.005 0.03], [1 1], [1 1], 7);
  printf("balanced,%d,%.12g,%.12g,%.12g,%.12g\n", N, Xl, Xu, Rl, Ru);
end
